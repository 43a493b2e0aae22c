package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// sequences runs random graphs like those of exporters: convolutions, pools, shifts and running sums along the last
// axis, transposes around operators on features, and systems between. It tests how a backend keeps earlier steps, and
// its layouts.
func (s *suite) sequences(t *testing.T) {
	for seed := range s.graphs(40) {
		s.sub(t, fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 19))
			var in []Data
			for _, length := range []int{1 + rng.IntN(20), 180 + rng.IntN(600), 200 + rng.IntN(200)} {
				x := tensor.New(tensor.Float32, 1+rng.IntN(3), 3, length)
				for i := range tensor.Data[float32](x) {
					tensor.Data[float32](x)[i] = float32(rng.NormFloat64())
				}
				in = append(in, Data{"x": x})
			}
			in = append(in, Data{"x": tensor.New(tensor.Float32, 0, 3, 5+seed)}) // a batch may be empty
			c := newNetworkCase(t, randomSequences(t, uint64(seed)), in...)
			for _, form := range c.forms {
				session := s.model(t, form.graph, runtime.Options{Threads: 1 + rng.IntN(4)}).NewSession()
				one := s.model(t, form.graph, runtime.Options{Threads: 1}).NewSession()
				for _, r := range c.runs {
					what := fmt.Sprintf("%s, %s", form.name, describe(r.in))
					got := s.mustRun(t, session, r.in)
					expect(t, what, got, r.want, s.allowed(c, "auto"))
					if err := identical(got, s.mustRun(t, one, r.in)); err != nil {
						t.Errorf("%s: the number of threads changes the answer: %v", what, err)
					}
				}
			}
		})
	}
}

// sequencer makes random networks. Every value is float[B,C,L] for some C.
type sequencer struct{ *builder }

// randomSequences returns a network with input x float[B,3,L].
func randomSequences(t testing.TB, seed uint64) *ir.Graph {
	t.Helper()
	b := &sequencer{builder: &builder{Builder: ir.NewBuilder(fmt.Sprintf("sequences%d", seed), ops.Default,
		ops.Opsets()), Rand: rand.New(rand.NewPCG(seed, 18))}}
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	b.vals = []*ir.Value{b.conv(b.Input("x", ir.Tensor(tensor.Float32, "B", 3, "L")))}
	for range 3 + b.IntN(8) {
		b.vals = append(b.vals, b.step())
	}
	last := b.vals[len(b.vals)-1]
	b.Output("y", last)
	if v := b.vals[b.IntN(len(b.vals))]; v != last {
		b.Output("", v)
	}
	b.Output("rows", b.turned(b.vals[b.IntN(len(b.vals))]))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g.RemoveDead()
	return g
}

func channels(v *ir.Value) int {
	n, _ := v.Shape()[1].Known()
	return int(n)
}

func (b *sequencer) ints(v ...int64) *ir.Value {
	return b.Const("n", tensor.FromSlice(v, len(v)))
}

func (b *sequencer) turned(x *ir.Value) *ir.Value {
	return b.Op("", "Transpose", []*ir.Value{x}, ir.A("perm", []int64{0, 2, 1}))
}

// pads divides the reach of a window into pads before and after the sequence.
func (b *sequencer) pads(reach int) (begin, end int) {
	switch b.IntN(4) {
	case 0:
		return reach / 2, reach - reach/2
	case 1:
		return 0, reach
	}
	return reach, 0
}

// conv returns a convolution of the length of its input: with pads, after a Pad, or before a Slice.
func (b *sequencer) conv(x *ir.Value) *ir.Value {
	c := channels(x)
	k, dilation := 1+b.IntN(5), []int{1, 1, 2, 7, 40, 110}[b.IntN(6)]
	reach := (k - 1) * dilation
	group, to := 1, 1+b.IntN(20)
	switch b.IntN(3) {
	case 0:
		group, to = c, c
	case 1:
		for _, n := range []int{2, 3} {
			if c%n == 0 {
				group, to = n, n*(1+b.IntN(9))
			}
		}
	}
	in := []*ir.Value{x, b.f32(1/math.Sqrt(float64(k*c/group)), to, c/group, k)}
	if b.IntN(2) == 0 {
		in = append(in, b.f32(1, to))
	}
	conv := func(begin, end int) *ir.Value {
		return b.Op("", "Conv", in, ir.A("dilations", []int64{int64(dilation)}), ir.A("group", group),
			ir.A("pads", []int64{int64(begin), int64(end)}))
	}
	begin, end := b.pads(reach)
	switch b.IntN(3) {
	case 0:
		in[0] = b.Op("", "Pad", []*ir.Value{x, b.ints(0, 0, int64(begin), 0, 0, int64(end))})
		return conv(0, 0)
	case 1:
		if reach > 0 { // cuts steps outside of the sequence
			upTo := end - reach
			if upTo == 0 {
				upTo = math.MaxInt32
			}
			return b.Op("", "Slice", []*ir.Value{conv(reach, reach), b.ints(int64(end)), b.ints(int64(upTo)),
				b.ints(2)})
		}
	}
	return conv(begin, end)
}

// step applies a random operator to the last value, or to an earlier one.
func (b *sequencer) step() *ir.Value {
	x := b.vals[len(b.vals)-1]
	if b.IntN(4) == 0 {
		x = b.vals[b.IntN(len(b.vals))]
	}
	c := channels(x)
	switch b.IntN(13) {
	case 0:
		return b.Op("", []string{"Gelu", "Relu", "Sigmoid", "Tanh", "Neg", "Softplus"}[b.IntN(6)], []*ir.Value{x})
	case 1:
		return b.Op("", []string{"Add", "Mul"}[b.IntN(2)],
			[]*ir.Value{x, b.f32(1, [][]int{{c, 1}, {1, c, 1}, {1}}[b.IntN(3)]...)})
	case 2:
		y := b.vals[b.IntN(len(b.vals))]
		if channels(y) != c {
			y = b.Op("", "MatMul", []*ir.Value{b.f32(1/math.Sqrt(float64(channels(y))), c, channels(y)), y})
		}
		return b.Op("", []string{"Add", "Sub"}[b.IntN(2)], []*ir.Value{x, y})
	case 3: // a gate
		if c%2 == 1 {
			x = b.Op("", "Concat", []*ir.Value{x, x}, ir.A("axis", 1))
		}
		halves := b.Ops("", "Split", 2, []*ir.Value{x}, ir.A("axis", 1), ir.A("num_outputs", 2))
		return b.Op("", "Mul", []*ir.Value{b.Op("", "Tanh", halves[:1]), b.Op("", "Sigmoid", halves[1:])})
	case 4:
		k := 1 + b.IntN(6)
		begin, end := b.pads(k - 1)
		name := []string{"MaxPool", "AveragePool"}[b.IntN(2)]
		attrs := []ir.Attr{ir.A("kernel_shape", []int64{int64(k)}), ir.A("pads", []int64{int64(begin), int64(end)})}
		if name == "AveragePool" && b.IntN(2) == 0 {
			attrs = append(attrs, ir.A("count_include_pad", 1))
		}
		return b.Op("", name, []*ir.Value{x}, attrs...)
	case 5: // a step back
		y := b.Op("", "Pad", []*ir.Value{x, b.ints(0, 0, 1, 0, 0, 0)})
		return b.Op("", "Slice", []*ir.Value{y, b.ints(0), b.ints(-1), b.ints(2)})
	case 6:
		mean := b.Op("", "CumSum", []*ir.Value{x, b.Const("axis", tensor.Scalar(int64(2)))},
			ir.A("exclusive", b.IntN(2)))
		return b.Op("", "Tanh", []*ir.Value{b.Op("", "Mul", []*ir.Value{mean, b.f32(0.01, 1)})})
	case 7:
		y := b.turned(x)
		y = b.Op("", "LayerNormalization", []*ir.Value{y, b.f32(1, c)}, ir.A("epsilon", 0.1))
		return b.turned(b.linear(y, 1+b.IntN(12)))
	case 8: // a layer of builder, on rows
		all := b.vals
		b.vals = []*ir.Value{b.turned(x)}
		y := b.builder.step()
		b.vals = all
		return b.turned(y)
	}
	return b.conv(x)
}
