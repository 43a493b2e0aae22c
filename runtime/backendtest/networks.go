package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

// sumUnits is the minimum tolerance for answers in float32. A sum of a hundred products that cancel needs it, but
// the interpreter, which sums in float64, does not.
const sumUnits = 4

// mostUnits bounds the interpreter's error. A network beyond it amplifies rounding errors, or has an output that should
// be 0, and tests nothing.
const mostUnits = 256

// formFactor is the largest error of a form, as a multiple of the interpreter's. Recurrence, chunks, and the backend's
// own choice keep a state like the interpreter. The direct form sums a whole kernel in float32. A transform rounds each
// step relative to the largest of the sequence, which later operators, such as a norm of small steps, may amplify.
var formFactor = map[string]float64{"auto": 4, "scan": 4, "chunked": 4, "direct": 8, "fft": 32}

// networkCase is a random network in the forms in which it runs, with inputs and their answers in float64.
type networkCase struct {
	forms []networkForm
	runs  []networkRun
	own   float64 // the interpreter's error in float32, the largest of all forms and runs; at least sumUnits
}

type networkForm struct {
	name  string
	graph *ir.Graph
}

type networkRun struct{ in, want Data }

// newNetworkCase runs the passes on a copy of a network, and computes answers and tolerance.
func newNetworkCase(t testing.TB, g *ir.Graph, inputs ...Data) *networkCase {
	t.Helper()
	optimized := g.Clone()
	if err := passes.Optimize(optimized); err != nil {
		t.Fatal(err)
	}
	c := &networkCase{forms: []networkForm{{"as it is", g}, {"optimized", optimized}}, own: sumUnits}
	for _, in := range inputs {
		want, err := truth(g, in)
		if err != nil {
			t.Fatal(err)
		}
		c.runs = append(c.runs, networkRun{in, want})
	}
	for _, f := range c.forms {
		for _, r := range c.runs {
			got, err := evaluated(f.graph, r.in)
			if err != nil {
				t.Fatal(err)
			}
			c.own = max(c.own, farthest(got, r.want))
		}
	}
	if c.own > mostUnits {
		t.Fatalf("the network is no measure: the interpreter is %.3g units of float32 from the truth", c.own)
	}
	return c
}

// tolerance returns the tolerance of a form.
func (c *networkCase) tolerance(kernel string) ir.Tolerance {
	return ir.Tolerance{Ulps: formFactor[kernel] * c.own}
}

// allowed returns the tolerance of a form on the backend.
func (s *suite) allowed(c *networkCase, kernel string) ir.Tolerance {
	t := c.tolerance(kernel)
	t.Ulps *= max(1, s.o.Networks)
	return t
}

// networks runs random graphs over sequences, before and after the passes. Their steps can be fused, tiled along time,
// and computed in several forms. Some values are read more than once, and there may be several outputs. Each graph runs
// in the backend's choice of form, and in one other form.
func (s *suite) networks(t *testing.T) {
	for seed := range s.graphs(40) {
		s.sub(t, fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 9))
			var in []Data
			for range 3 {
				in = append(in, inputs(rng.Uint64(), 1+rng.IntN(4), 1+rng.IntN(200), rng.IntN(2) == 0))
			}
			in = append(in, inputs(uint64(seed), 0, 1+seed, seed%2 == 0)) // a batch may be empty
			c := newNetworkCase(t, randomNetwork(t, uint64(seed)), in...)
			for _, form := range c.forms {
				forced := runtime.Kernels()[1:]
				for _, kernel := range []string{"auto", forced[rng.IntN(len(forced))]} {
					session := s.model(t, form.graph, runtime.Options{Kernel: kernel,
						Threads: 1 + rng.IntN(4)}).NewSession()
					for _, r := range c.runs {
						what := fmt.Sprintf("%s, kernel %s, %s", form.name, kernel, describe(r.in))
						expect(t, what, s.mustRun(t, session, r.in), r.want, s.allowed(c, kernel))
					}
				}
			}
		})
	}
}

// builder makes random networks. Every value is float[B,L,H] for some H.
type builder struct {
	*ir.Builder
	*rand.Rand
	vals []*ir.Value
}

// randomNetwork returns a network with the inputs x float[B,L,2] and lengths optional(int64[B]).
func randomNetwork(t testing.TB, seed uint64) *ir.Graph {
	t.Helper()
	b := &builder{Builder: ir.NewBuilder(fmt.Sprintf("random%d", seed), ops.Default, ops.Opsets()),
		Rand: rand.New(rand.NewPCG(seed, 8))}
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 2))
	lengths := b.Input("lengths", &ir.OptionalType{Elem: ir.Tensor(tensor.Int64, "B")})
	b.vals = []*ir.Value{b.linear(x, 1+b.IntN(20))}
	for range 2 + b.IntN(12) {
		b.Scope(fmt.Sprintf("layers.%d", len(b.vals)/4))
		b.vals = append(b.vals, b.step())
	}
	last := b.vals[len(b.vals)-1]
	b.Output("y", last)
	b.Output("z", b.Op("essm", "Pick", []*ir.Value{last, lengths},
		ir.A("mode", []string{"pool", "last", "first", "sum"}[b.IntN(4)])))
	if v := b.vals[b.IntN(len(b.vals))]; v != last {
		b.Output("", v) // read by nodes, and also an output
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g.RemoveDead()
	return g
}

func width(v *ir.Value) int {
	n, _ := v.Shape()[2].Known()
	return int(n)
}

func (b *builder) f32(scale float64, shape ...int) *ir.Value {
	w := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](w) {
		tensor.Data[float32](w)[i] = float32(scale * b.NormFloat64())
	}
	return b.Const("w", w)
}

func (b *builder) f64(number func() float64, shape ...int) *ir.Value {
	w := tensor.New(tensor.Float64, shape...)
	for i := range tensor.Data[float64](w) {
		tensor.Data[float64](w)[i] = number()
	}
	return b.Const("p", w)
}

func (b *builder) linear(x *ir.Value, to int) *ir.Value {
	in := []*ir.Value{x, b.f32(1/math.Sqrt(float64(width(x))), to, width(x))}
	if b.IntN(2) == 0 {
		in = append(in, b.f32(1, to))
	}
	return b.Op("essm", "Linear", in)
}

// step applies a random operator to the last value, or to an earlier one.
func (b *builder) step() *ir.Value {
	x := b.vals[len(b.vals)-1]
	if b.IntN(4) == 0 {
		x = b.vals[b.IntN(len(b.vals))]
	}
	h := width(x)
	switch b.IntN(9) {
	case 0:
		return b.linear(x, 1+b.IntN(20))
	case 1, 2:
		name := []string{"Gelu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Softplus", "Neg", "Abs"}[b.IntN(8)]
		return b.Op("", name, []*ir.Value{x})
	case 3:
		y := b.vals[b.IntN(len(b.vals))]
		if width(y) != h {
			y = b.linear(y, h)
		}
		if b.IntN(3) == 0 { // a gate
			return b.Op("", "Mul", []*ir.Value{x, b.Op("", "Sigmoid", []*ir.Value{y})})
		}
		return b.Op("", []string{"Add", "Sub"}[b.IntN(2)], []*ir.Value{x, y})
	case 4:
		return b.Op("essm", "Affine", []*ir.Value{x, b.f64(b.NormFloat64, h), b.f64(b.NormFloat64, h)})
	case 5:
		return b.Op("", "LayerNormalization", []*ir.Value{x, b.f32(1, h), b.f32(1, h)}, ir.A("epsilon", 0.1))
	case 6:
		return b.Op("essm", "Scan", append([]*ir.Value{x}, b.system(1, h, 1)...), b.direction()...)
	}
	heads := 1
	for _, s := range []int{2, 3, 5} {
		if h%s == 0 && b.IntN(2) == 0 {
			heads = s
		}
	}
	per, states := h/heads, 1+b.IntN(9)
	out := 1 + b.IntN(6)
	scale := 1 / math.Sqrt(float64(per*states))
	in := append([]*ir.Value{x}, b.system(1, heads, states)...)
	in = append(in, b.f32(scale, 1, heads, states, per), b.f32(scale, 1, heads, out, states), nil, nil, nil)
	switch b.IntN(4) {
	case 0:
		in[7], in[8] = b.f32(scale, 1, heads, states, per), b.f32(scale, 1, heads, out, states)
	case 1:
		in[8] = b.f32(scale, 1, heads, out, states)
	}
	if b.IntN(3) == 0 {
		in[9] = b.f32(1, 1, heads, out, per)
	} else if out == per && b.IntN(2) == 0 { // a diagonal D needs as many outputs as inputs
		in[9] = b.f32(1, 1, heads, out)
	}
	for in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return b.Op("essm", "SSM", in, b.direction()...)
}

// system returns λΔ and b of a stable system. Some states decay at once, some hardly.
func (b *builder) system(shape ...int) []*ir.Value {
	return []*ir.Value{
		b.f64(func() float64 { return -math.Exp(-7 + 8*b.Float64()) }, shape...),
		b.f64(func() float64 { return 2 * b.NormFloat64() }, shape...),
		b.f64(b.NormFloat64, shape...), b.f64(b.NormFloat64, shape...),
	}
}

func (b *builder) direction() []ir.Attr {
	a := []ir.Attr{ir.A("direction", []string{essm.Forward, essm.Forward, essm.Backward,
		essm.Bidirectional}[b.IntN(4)])}
	if b.IntN(3) == 0 {
		a = append(a, ir.A("window", []int{1, 2, 17, 100, 300}[b.IntN(5)]))
	}
	return a
}
