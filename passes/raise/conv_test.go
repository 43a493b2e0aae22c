package raise_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

// flipped returns a kernel (h, length) as Conv takes it: (h, 1, length), reversed.
func flipped(k []float64, h, length int) []float64 {
	out := slices.Clone(k)
	for i := range h {
		slices.Reverse(out[i*length : (i+1)*length])
	}
	return out
}

// causal computes y = conv(x, k) by Pad and a grouped Conv, for x of shape (B, h, L).
func (l layer) causal(x, w *ir.Value, h, length int) *ir.Value {
	p := l.op("Pad", x, []int64{0, 0, int64(length - 1), 0, 0, 0})
	return l.op("Conv", p, w, ir.A("group", h))
}

func TestConvInitializer(t *testing.T) {
	s := newSystem(3, 2, 1)
	const length = 96
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", 3, length))
	w := l.floats("w", flipped(s.kernel(length), 3, length), 3, 1, length)
	l.Output("y", l.op("Relu", l.causal(x, w, 3, length)))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(passtest.Notes(r))
	if count(r, "essm.SSM") != 1 || count(r, "Conv", "Pad") != 0 {
		t.Errorf("got %d essm.SSM, and %d of what it is to replace", count(r, "essm.SSM"), count(r, "Conv", "Pad"))
	}
	agree(t, g, r, 2e-6)
}

// TestConvFolded raises layers of S4D with 16 pairs of states for each of 32 features, whose kernels are constants, and D u
// beside them.
func TestConvFolded(t *testing.T) {
	const h = 32
	for _, length := range []int{255, 256, 512} {
		for _, rough := range []float64{0, 1e-3} {
			s := newSystem(h, 16, uint64(length))
			k, d := s.kernel(length), make([]float64, h)
			for i := range k {
				k[i] = float64(float32(k[i])) * s.dt[i/length]
				k[i] += rough * s.dt[i/length] * math.Sin(float64(i*i))
			}
			for c := range d {
				d[c] = math.Cos(float64(c))
			}
			l := newLayer()
			x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
			y := l.causal(x, l.floats("w", flipped(k, h, length), h, 1, length), h, length)
			l.Output("y", l.op("Add", y, l.op("Mul", x, l.floats("d", d, h, 1))))
			g := l.graph(t)
			r := raised(t, g)
			notes := strings.Join(passtest.Notes(r), "\n")
			want := [2]int{1, 0}
			reason := "the states are fitted to"
			if rough > 0 {
				want, reason = [2]int{0, 1}, "is not an essm.SSM: from lag 1 on, the kernel of channel"
			}
			if got := [2]int{count(r, "essm.SSM"), count(r, "essm.LongConv")}; got != want || count(r, "Conv", "Pad") != 0 {
				t.Errorf("length %d: got %v of essm.SSM and essm.LongConv, expected %v\n%s", length, got, want, notes)
			}
			if !strings.Contains(notes, reason) {
				t.Errorf("length %d: no note with %q:\n%s", length, reason, notes)
			}
			agree(t, g, r, 2e-6)
		}
	}
}

func TestConvDynamic(t *testing.T) {
	s := newSystem(3, 2, 1)
	const length = 96
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", 3, "L"))
	w := l.floats("w", flipped(s.kernel(length), 3, length), 3, 1, length)
	y := l.causal(x, w, 3, length)
	l.Output("y", l.op("Add", y, l.op("Mul", x, l.floats("d", []float64{1, 2, 3}, 3, 1))))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(passtest.Notes(r))
	if count(r, "essm.SSM") != 1 || count(r, "Conv", "Pad", "Mul") != 0 {
		t.Errorf("got %d essm.SSM, and %d of what it is to replace", count(r, "essm.SSM"), count(r, "Conv", "Pad"))
	}
	agree(t, g, r, 2e-6, map[string]int64{"B": 2, "L": 50}, map[string]int64{"B": 1, "L": 300})
}

func TestOrders(t *testing.T) {
	all := slices.Concat(raise.Pipeline(), passes.Pipeline())
	passtest.Orders(t, all)
	if err := passes.Run(&ir.Graph{Name: "g"}, all, passtest.Verified(t)); err != nil {
		t.Errorf("the pipeline breaks its own order: %v", err)
	}
}

// realKernel computes a kernel (h, steps) from raw parameters in real arithmetic, as TorchScript exports do; steps is a
// vector of times 0, 1, ….
func (l layer) realKernel(s system, steps *ir.Value) *ir.Value {
	dt := l.op("Unsqueeze", l.op("Exp", l.floats("log_dt", logs(s.dt), s.h)), 1)
	re := l.op("Mul", l.op("Neg", l.op("Exp", l.floats("log_re", logs(negs(s.re)), s.h, s.n))), dt)
	im := l.op("Mul", l.floats("A_imag", s.im, s.h, s.n), dt)
	t := l.op("Cast", steps, ir.A("to", 1))
	decay := l.op("Exp", l.op("Mul", l.op("Unsqueeze", re, 2), t))
	angle := l.op("Mul", l.op("Unsqueeze", im, 2), t)
	p := l.op("Mul", l.op("Unsqueeze", l.floats("C_re", s.cr, s.h, s.n), 2), l.op("Cos", angle))
	q := l.op("Mul", l.op("Unsqueeze", l.floats("C_im", s.ci, s.h, s.n), 2), l.op("Sin", angle))
	sum := l.op("ReduceSum", l.op("Mul", decay, l.op("Sub", p, q)), 1, ir.A("keepdims", 0))
	return l.op("Mul", sum, 2.0)
}

func logs(v []float64) []float64 { return apply(v, math.Log) }
func negs(v []float64) []float64 { return apply(v, func(x float64) float64 { return -x }) }

func apply(v []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = f(x)
	}
	return out
}

// TestConvComputed has 32 pairs of states per channel: too many to fit to so short a kernel, but each can be read.
func TestConvComputed(t *testing.T) {
	const h, length = 3, 256
	s := newSystem(h, 32, 2)
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	k := l.realKernel(s, l.op("Range", l.scalar(0), l.scalar(length), l.scalar(1)))
	w := l.op("Unsqueeze", l.op("Slice", k, -1, int(math.MinInt32), 1, -1), 1)
	l.Output("y", l.causal(x, w, h, length))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(passtest.Notes(r))
	if count(r, "essm.SSM") != 1 || count(r, "Conv", "Pad") != 0 {
		t.Errorf("got %d essm.SSM, and %d of what it is to replace", count(r, "essm.SSM"), count(r, "Conv", "Pad"))
	}
	agree(t, g, r, 2e-6)
}

// TestConvComputedDynamic computes as many taps as there are steps.
func TestConvComputedDynamic(t *testing.T) {
	const h = 3
	s := newSystem(h, 16, 3)
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, "L"))
	n := l.op("Gather", l.op("Shape", x), l.scalar(2))
	k := l.realKernel(s, l.op("Range", l.scalar(0), n, l.scalar(1)))
	w := l.op("Unsqueeze", l.op("Slice", k, -1, int(math.MinInt32), 1, -1), 1)
	pads := l.op("Concat", []int64{0, 0}, l.op("Sub", l.op("Reshape", n, 1), 1), []int64{0, 0, 0}, ir.A("axis", 0))
	l.Output("y", l.op("Conv", l.op("Pad", x, pads), w, ir.A("group", h)))
	g := l.graph(t)
	r := raised(t, g)
	t.Log(passtest.Notes(r))
	if count(r, "essm.SSM") != 1 || count(r, "Conv", "Pad") != 0 {
		t.Errorf("got %d essm.SSM, and %d of what it is to replace", count(r, "essm.SSM"), count(r, "Conv", "Pad"))
	}
	agree(t, g, r, 2e-6, map[string]int64{"B": 2, "L": 50}, map[string]int64{"B": 1, "L": 3000})
}

// TestConvReversed tests bidirectional layers, with a second convolution over the reversed input.
func TestConvReversed(t *testing.T) {
	const h, length = 3, 96
	for _, how := range []string{"Slice", "Gather", "ReverseSequence"} {
		for _, tied := range []bool{false, true} {
			l := newLayer()
			x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
			reverse := func(v *ir.Value) *ir.Value {
				switch how {
				case "Slice":
					return l.op("Slice", v, -1, int(math.MinInt32), 2, -1)
				case "Gather":
					var at []int64
					for i := range length {
						at = append(at, int64(length-1-i))
					}
					return l.op("Gather", v, at, ir.A("axis", 2))
				}
				tr := l.op("Transpose", v, ir.A("perm", []int{2, 1, 0}))
				lens := make([]int64, h)
				for i := range lens {
					lens[i] = length
				}
				return l.op("Transpose", l.op("ReverseSequence", tr, lens, ir.A("batch_axis", 1), ir.A("time_axis", 0)),
					ir.A("perm", []int{2, 1, 0}))
			}
			f := newSystem(h, 2, 4).kernel(length)
			b := newSystem(h, 2, 5).kernel(length)
			if tied { // the backward one starts at lag 1
				b = make([]float64, h*length)
				for i := range h {
					copy(b[i*length+1:(i+1)*length], f[i*length:])
				}
			}
			y := l.causal(x, l.floats("w", flipped(f, h, length), h, 1, length), h, length)
			z := reverse(l.causal(reverse(x), l.floats("v", flipped(b, h, length), h, 1, length), h, length))
			l.Output("y", l.op("Add", y, z))
			g := l.graph(t)
			r := raised(t, g)
			t.Log(how, passtest.Notes(r))
			want := 2
			if tied {
				want = 1
			}
			if count(r, "essm.SSM") != want || count(r, "Conv", "Pad", how) != 0 {
				t.Errorf("%s: got %d essm.SSM, and %d of what it is to replace", how, count(r, "essm.SSM"),
					count(r, "Conv", "Pad", how))
			}
			agree(t, g, r, 2e-6)
		}
	}
}

// TestLayouts tests time as the last axis behind axes of all kinds: batches, channels, and axes of size 1.
func TestLayouts(t *testing.T) {
	const length = 40
	k := newSystem(1, 1, 8).kernel(length)
	for _, shape := range [][]any{
		{length}, {"B", length}, {3, length}, {"B", 3, length}, {3, "B", length}, {"B", 2, 3, length},
		{2, "B", 3, length}, {"B", 1, 3, length}, {2, 3, length}, {"B", "P", 3, length}, {"B", "P", length},
	} {
		for _, each := range []bool{false, true} { // each channel has its own kernel
			l := newLayer()
			y := l.op("MatMul", l.Input("x", ir.Tensor(tensor.Float32, shape...)),
				l.floats("m", toeplitz(k, length), length, length))
			if each {
				d, size := []int{1}, 1
				for i := len(shape) - 2; i >= 0; i-- {
					if n, ok := shape[i].(int); ok {
						d, size = append([]int{n}, d...), size*n
					} else {
						d = append([]int{1}, d...)
					}
				}
				v := make([]float64, size)
				for i := range v {
					v[i] = float64(i + 1)
				}
				y = l.op("Mul", y, l.floats("d", v, d...))
			}
			l.Output("y", l.op("Relu", y))
			g := l.graph(t)
			r := raised(t, g)
			if count(r, "essm.SSM") != 1 || count(r, "MatMul", "Mul") != 0 {
				t.Errorf("%v: got %d essm.SSM: %v", shape, count(r, "essm.SSM"), passtest.Notes(r))
			}
			agree(t, g, r, 2e-6, map[string]int64{"B": 3, "P": 2}, map[string]int64{"B": 1, "P": 1})
		}
	}
}

// TestConvWider tests a cast to another element type in the region.
func TestConvWider(t *testing.T) {
	const h, length = 2, 96
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	p := l.op("Cast", l.op("Pad", x, []int64{0, 0, length - 1, 0, 0, 0}), ir.A("to", int(tensor.Float64)))
	w := l.Const("w", tensor.FromSlice(flipped(newSystem(h, 2, 4).kernel(length), h, length), h, 1, length))
	l.Output("y", l.op("Conv", p, w, ir.A("group", h)))
	g := l.graph(t)
	r := raised(t, g)
	if count(r, "essm.SSM") != 1 || r.Outputs[0].Elem() != tensor.Float64 {
		t.Errorf("got %d essm.SSM, answers in %v: %v", count(r, "essm.SSM"), r.Outputs[0].Elem(), passtest.Notes(r))
	}
	agree(t, g, r, 2e-6)
}

// TestConvEarlier tests a graph of an operator set in which axes were attributes.
func TestConvEarlier(t *testing.T) {
	const length = 96
	opsets := ops.Opsets()
	opsets[""] = 11
	l := layer{ir.NewBuilder("layer", ops.Default, opsets)}
	x := l.op("Unsqueeze", l.Input("x", ir.Tensor(tensor.Float32, "B", length)), ir.A("axes", []int{1}))
	y := l.causal(x, l.floats("w", flipped(newSystem(1, 2, 4).kernel(length), 1, length), 1, 1, length), 1, length)
	l.Output("y", l.op("Squeeze", y, ir.A("axes", []int{1})))
	g := l.graph(t)
	r := raised(t, g)
	if count(r, "essm.SSM") != 1 || count(r, "Conv", "Pad") != 0 {
		t.Errorf("got %d essm.SSM: %v", count(r, "essm.SSM"), passtest.Notes(r))
	}
	agree(t, g, r, 2e-6)
}

// TestShapesOutput tests a shape that is an output of the graph.
func TestShapesOutput(t *testing.T) {
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, 2, 3))
	s := l.op("Shape", x)
	l.Output("s", s)
	l.Output("y", l.op("Relu", l.op("Reshape", x, s)))
	g := l.graph(t)
	agree(t, g, raised(t, g), 0)
}
