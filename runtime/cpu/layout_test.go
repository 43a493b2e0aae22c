package cpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// seqNet builds networks of convolutions over time as exporters write them: sequences are (samples, features, steps).
type seqNet struct {
	*ir.Builder
	Gen
}

func (b *seqNet) op(name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value {
	return b.Op("", name, in, attrs...)
}

func (b *seqNet) ints(v ...int64) *ir.Value {
	return b.Const("n", tensor.FromSlice(v, len(v)))
}

func (b *seqNet) weights(shape ...int) *ir.Value {
	per := 1
	for _, n := range shape[1:] {
		per *= n
	}
	return b.Const("w", b.Floats(1/math.Sqrt(float64(max(1, per))), shape...))
}

func features1(v *ir.Value) int {
	n, _ := v.Shape()[1].Known()
	return int(n)
}

// conv is a convolution of k taps with the given pads.
func (b *seqNet) conv(x *ir.Value, to, k, dilation, group, begin, end int) *ir.Value {
	return b.op("Conv", []*ir.Value{x, b.weights(to, features1(x)/group, k), b.weights(to)},
		ir.A("dilations", []int64{int64(dilation)}), ir.A("group", group), ir.A("pads", []int64{int64(begin), int64(end)}))
}

// chomped looks back only, by pads on both sides, of which the later ones are cut off.
func (b *seqNet) chomped(x *ir.Value, to, k, dilation, group int) *ir.Value {
	p := (k - 1) * dilation
	y := b.conv(x, to, k, dilation, group, p, p)
	if p == 0 {
		return y
	}
	return b.op("Slice", []*ir.Value{y, b.ints(0), b.ints(int64(-p)), b.ints(2)})
}

// padded looks back only, by a Pad before.
func (b *seqNet) padded(x *ir.Value, to, k, dilation, group int) *ir.Value {
	p := int64((k - 1) * dilation)
	return b.conv(b.op("Pad", []*ir.Value{x, b.ints(0, 0, p, 0, 0, 0)}), to, k, dilation, group, 0, 0)
}

func (b *seqNet) turned(x *ir.Value) *ir.Value {
	return b.op("Transpose", []*ir.Value{x}, ir.A("perm", []int64{0, 2, 1}))
}

// mamba is layers of a short convolution, a system and a gate; the convolutions want their features first.
func (b *seqNet) mamba(x *ir.Value, directions ...string) *ir.Value {
	x = b.turned(x)
	for _, dir := range directions {
		w, _ := x.Shape()[2].Known()
		u := b.op("MatMul", []*ir.Value{x, b.weights(int(w), 24)})
		halves := b.Ops("", "Split", 2, []*ir.Value{u}, ir.A("axis", -1), ir.A("num_outputs", 2))
		y := b.op("Swish", []*ir.Value{b.turned(b.chomped(b.turned(halves[0]), 12, 4, 1, 12))})
		s := plain
		s.direction = dir
		y = s.ssm(b.Gen, b.Builder, y, nil)[0]
		y = b.op("Mul", []*ir.Value{y, b.op("Swish", halves[1:])})
		y = b.op("MatMul", []*ir.Value{y, b.weights(12, int(w))})
		x = b.op("LayerNormalization", []*ir.Value{b.op("Add", []*ir.Value{x, y}), b.weights(int(w))})
	}
	return b.turned(x)
}

// seqNets are networks of one input x (samples, features, steps).
var seqNets = map[string]func(b *seqNet, x *ir.Value) *ir.Value{
	"tcn": func(b *seqNet, x *ir.Value) *ir.Value {
		x = b.conv(x, 16, 1, 1, 1, 0, 0)
		for i, d := range []int{1, 2, 64, 150} {
			y := b.op("Relu", []*ir.Value{b.chomped(x, 16, 3, d, 16)})
			y = b.op("Relu", []*ir.Value{b.conv(y, 16, 1, 1, 1, 0, 0)})
			if i == 2 {
				y = b.op("Mul", []*ir.Value{y, b.Const("s", b.Floats(1, 16, 1))})
			}
			x = b.op("Add", []*ir.Value{x, y})
		}
		return x
	},
	"wavenet": func(b *seqNet, x *ir.Value) *ir.Value {
		x = b.padded(x, 12, 4, 1, 1)
		var skip *ir.Value
		for _, d := range []int{1, 5, 128} {
			y := b.padded(x, 24, 2, d, 1)
			halves := b.Ops("", "Split", 2, []*ir.Value{y}, ir.A("axis", 1), ir.A("num_outputs", 2))
			y = b.op("Mul", []*ir.Value{b.op("Tanh", halves[:1]), b.op("Sigmoid", halves[1:])})
			s := b.conv(y, 9, 1, 1, 1, 0, 0)
			if skip == nil {
				skip = s
			} else {
				skip = b.op("Add", []*ir.Value{skip, s})
			}
			x = b.op("Add", []*ir.Value{x, b.conv(y, 12, 1, 1, 1, 0, 0)})
		}
		return b.op("Relu", []*ir.Value{skip})
	},
	"ahead": func(b *seqNet, x *ir.Value) *ir.Value {
		x = b.conv(x, 10, 5, 1, 1, 2, 2)
		for _, d := range []int{1, 9, 70, 200} {
			y := b.op("Relu", []*ir.Value{b.conv(x, 10, 3, d, 5, d, d)})
			y = b.conv(y, 10, 3, 1, 10, 0, 2)
			x = b.op("Add", []*ir.Value{x, y})
		}
		return x
	},
	"pools": func(b *seqNet, x *ir.Value) *ir.Value {
		x = b.conv(x, 6, 3, 1, 1, 1, 1)
		a := b.op("MaxPool", []*ir.Value{x}, ir.A("kernel_shape", []int64{5}), ir.A("pads", []int64{2, 2}))
		c := b.op("AveragePool", []*ir.Value{b.op("Neg", []*ir.Value{x})}, ir.A("kernel_shape", []int64{4}),
			ir.A("pads", []int64{3, 0}))
		e := b.op("AveragePool", []*ir.Value{x}, ir.A("kernel_shape", []int64{3}), ir.A("pads", []int64{1, 1}),
			ir.A("count_include_pad", 1))
		y := b.op("Concat", []*ir.Value{a, c, e}, ir.A("axis", 1))
		return b.op("Slice", []*ir.Value{b.conv(y, 18, 2, 1, 3, 1, 0), b.ints(1), b.ints(17), b.ints(1)})
	},
	"mamba": func(b *seqNet, x *ir.Value) *ir.Value { return b.mamba(x, "forward", "forward", "forward") },
	"both": func(b *seqNet, x *ir.Value) *ir.Value {
		return b.mamba(x, "forward", "backward", "forward", "bidirectional")
	},
	"shifts": func(b *seqNet, x *ir.Value) *ir.Value {
		x = b.turned(x)
		w, _ := x.Shape()[2].Known()
		before := b.op("Pad", []*ir.Value{b.op("Slice", []*ir.Value{x, b.ints(0), b.ints(-1), b.ints(1)}),
			b.ints(0, 1, 0, 0, 0, 0)})
		after := b.op("Slice", []*ir.Value{b.op("Pad", []*ir.Value{x, b.ints(0, 0, 0, 0, 120, 0)}), b.ints(120),
			b.ints(math.MaxInt64), b.ints(1)})
		y := b.op("Sub", []*ir.Value{b.op("MatMul", []*ir.Value{before, b.weights(int(w), int(w))}), after})
		z := b.Op("essm", "LongConv", []*ir.Value{y, b.weights(int(w), 7)})
		return b.turned(b.op("Add", []*ir.Value{z, x}))
	},
	"sums": func(b *seqNet, x *ir.Value) *ir.Value { // the mean of the steps so far, and of the steps before
		y := b.conv(x, 7, 3, 1, 1, 2, 0)
		axis := b.Const("axis", tensor.Scalar(int64(2)))
		one := b.op("CumSum", []*ir.Value{b.op("Neg", []*ir.Value{y}), axis}, ir.A("exclusive", 1))
		z := b.op("Tanh", []*ir.Value{b.op("Add", []*ir.Value{b.op("CumSum", []*ir.Value{y, axis}), one})})
		return b.turned(b.op("CumSum",
			[]*ir.Value{b.turned(b.conv(z, 4, 3, 7, 1, 7, 7)), b.Const("axis", tensor.Scalar(int64(1)))}))
	},
	"absorbed": func(b *seqNet, x *ir.Value) *ir.Value { // a Slice between a window and a Pad
		y := b.op("Slice", []*ir.Value{b.conv(x, 6, 3, 1, 1, 2, 2), b.ints(2), b.ints(math.MaxInt64), b.ints(2)})
		z := b.op("Tanh", []*ir.Value{b.op("Pad", []*ir.Value{y, b.ints(0, 0, 0, 0, 0, 2)})})
		return b.op("Add", []*ir.Value{b.conv(z, 6, 3, 1, 1, 0, 0), b.conv(y, 6, 3, 1, 1, 1, 1)})
	},
	"elements": func(b *seqNet, x *ir.Value) *ir.Value { // elementwise operators of all kinds, with and without kernels
		number := func(v float32) *ir.Value { return b.Const("c", tensor.Scalar(v)) }
		y := b.conv(x, 6, 3, 1, 1, 2, 0)
		y = b.op("Clip", []*ir.Value{b.op("Pow", []*ir.Value{y, number(2)}), number(0.1), number(2)})
		y = b.conv(y, 6, 3, 1, 1, 2, 0)
		single := b.conv(y, 1, 1, 1, 1, 0, 0) // one feature for all
		z := b.op("Min", []*ir.Value{b.op("Softplus", []*ir.Value{y}), b.op("Exp", []*ir.Value{y})})
		z = b.op("Mul", []*ir.Value{b.op("Sub", []*ir.Value{single, z}), b.op("HardSwish", []*ir.Value{y})})
		z = b.conv(b.op("Div", []*ir.Value{z, b.Const("d", tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 6, 1))}), 6, 3,
			2, 1, 4, 0)
		z = b.op("PRelu", []*ir.Value{z, b.Const("slope", b.Floats(0.3, 6, 1))})
		return b.conv(z, 6, 3, 2, 1, 4, 0)
	},
	"several": func(b *seqNet, x *ir.Value) *ir.Value { // of both layouts, read inside and outside
		y := b.padded(x, 8, 3, 1, 1)
		b.Output("middle", y)
		z := b.op("Softmax", []*ir.Value{b.op("Relu", []*ir.Value{y})}, ir.A("axis", 1))
		z = b.padded(b.op("Add", []*ir.Value{z, y}), 8, 3, 40, 8)
		for range 3 {
			z = b.op("Add", []*ir.Value{b.padded(z, 8, 5, 3, 2), z})
		}
		b.Output("rows", b.turned(z))
		b.Output("rows2", b.turned(z))
		return b.op("MatMul", []*ir.Value{b.Const("w", b.Floats(0.3, 5, 8)), z})
	},
}

func seqGraph(t testing.TB, name string, in int) *ir.Graph {
	t.Helper()
	b := &seqNet{ir.NewBuilder(name, ops.Default, ops.Opsets()), NewGen(8)}
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	b.Output("y", seqNets[name](b, b.Input("x", ir.Tensor(tensor.Float32, "B", in, "L"))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Steps that are computed tick by tick give the graph's answers, bitwise the same for any number of threads and
// length of chunks.
func TestTimeMajor(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(seqNets)) {
		t.Run(name, func(t *testing.T) {
			g := seqGraph(t, name, 5)
			for _, shape := range [][2]int{{1, 192}, {2, 1037}, {3, 700}, {1, 1700}} {
				in := []tensor.Datum{NewGen(3).Floats(1, shape[0], 5, shape[1])}
				want := Truth(t, g, map[string]tensor.Datum{"x": in[0]})
				var first []tensor.Datum
				for _, threads := range []int{1, 2, 3, 7} {
					for _, rows := range []int{1 << 30, 1, 300} {
						e := bindChunks(t, g, rows, threads, in)
						flows := 0
						for _, u := range e.units {
							if u.region != nil && u.region.pipeline != nil {
								flows++
							}
						}
						if flows == 0 {
							t.Fatal("nothing goes tick by tick")
						}
						for range 2 {
							out := make([]tensor.Datum, len(g.Outputs))
							if err := e.Run(context.Background(), in, out); err != nil {
								t.Fatal(err)
							}
							if first == nil {
								first = out
								got := map[string]tensor.Datum{}
								for i, v := range g.Outputs {
									got[v.Name] = out[i]
								}
								CloseTo(t, fmt.Sprint(shape), got, want, 3e-5)
							}
							for i := range out {
								if !tensor.Equal(out[i].(*tensor.Tensor), first[i].(*tensor.Tensor)) {
									t.Fatalf("%v, %d threads, %d rows: output %s differs", shape, threads, rows,
										g.Outputs[i].Name)
								}
							}
						}
					}
				}
			}
		})
	}
}

// The working memory of what looks back only does not depend on how long sequences are: of its own it has a part of each.
func TestTimeMajorMemory(t *testing.T) {
	for _, name := range []string{"tcn", "wavenet", "mamba"} {
		g := seqGraph(t, name, 5)
		bytes := func(length int) int64 {
			return bindChunks(t, g, stretchRows, 2, []tensor.Datum{tensor.New(tensor.Float32, 2, 5, length)}).ArenaBytes()
		}
		if a, b := bytes(1<<14), bytes(1<<18); b > a+a/16 {
			t.Errorf("%s: %d bytes at 16384 steps, %d at %d", name, a, b, 1<<18)
		}
	}
}

// What reaches further than a sequence is long, or takes too long for one tile, stays a kernel over the whole of it.
func TestTimeMajorRefuses(t *testing.T) {
	for name, conv := range map[string]func(b *seqNet, x *ir.Value) *ir.Value{
		"far":   func(b *seqNet, x *ir.Value) *ir.Value { return b.padded(x, 3, 2, 100_000, 1) },
		"heavy": func(b *seqNet, x *ir.Value) *ir.Value { return b.conv(x, 600_000, 1, 1, 1, 0, 0) },
		"strided": func(b *seqNet, x *ir.Value) *ir.Value {
			return b.op("Conv", []*ir.Value{x, b.weights(4, 5, 3)}, ir.A("strides", []int64{2}),
				ir.A("pads", []int64{1, 1}))
		},
	} {
		b := &seqNet{ir.NewBuilder(name, ops.Default, ops.Opsets()), NewGen(8)}
		b.Graph().Meta[ir.MetaTime] = "L"
		b.Output("y", conv(b, b.Input("x", ir.Tensor(tensor.Float32, "B", 5, "L"))))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		in := []tensor.Datum{NewGen(3).Floats(1, 1, 5, 200)}
		e := bindChunks(t, g, stretchRows, 1, in)
		for _, u := range e.units {
			if u.region != nil && u.region.pipeline != nil {
				t.Errorf("%s: goes tick by tick", name)
			}
		}
		if name == "heavy" { // 480 MB of answers say nothing more
			continue
		}
		out := make([]tensor.Datum, 1)
		if err := e.Run(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		CloseTo(t, name, map[string]tensor.Datum{"y": out[0]}, Truth(t, g, map[string]tensor.Datum{"x": in[0]}), 1e-5)
	}
}

// A run stops soon after it is cancelled, and the next one is as if it had not been.
func TestTimeMajorCancel(t *testing.T) {
	g := seqGraph(t, "wavenet", 5)
	in := []tensor.Datum{NewGen(3).Floats(1, 2, 5, 5000)}
	e := bindChunks(t, g, stretchRows, 3, in)
	want, got := make([]tensor.Datum, 1), make([]tensor.Datum, 1)
	if err := e.Run(context.Background(), in, want); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		err := e.Run(ctx, in, got)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if err := e.Run(context.Background(), in, got); err != nil {
		t.Fatal(err)
	}
	if !tensor.Equal(got[0].(*tensor.Tensor), want[0].(*tensor.Tensor)) {
		t.Error("answers differ after a cancelled run")
	}
}
