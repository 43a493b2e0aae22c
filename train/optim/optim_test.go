package optim_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm"
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
	"github.com/essmc/essmc/train/optim"
)

// builder returns a builder with the operators that rules use.
func builder() *ir.Builder { return ir.NewBuilder("step", ops.Default, ops.Opsets()) }

// run computes a graph in float64.
func run(t *testing.T, b *ir.Builder, in map[string][]float64) map[string][]float64 {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	data := map[string]tensor.Datum{}
	for name, v := range in {
		data[name] = tensor.FromSlice(v, len(v))
		if len(v) == 1 {
			data[name] = tensor.Scalar(v[0])
		}
	}
	out, err := m.Run(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]float64{}
	for name, d := range out {
		if all[name], err = d.(*tensor.Tensor).Float64s(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

const size = 5

// step does a step of a rule by its nodes. state has the parameter and then the moments.
func step(t *testing.T, r optim.Rule, state [][]float64, g []float64, rate float64, number int64, keep float64) [][]float64 {
	t.Helper()
	b := builder()
	in := map[string][]float64{"g": g, "keep": {keep}}
	vector := func(name string, v []float64) *ir.Value {
		in[name] = v
		return b.Input(name, ir.Tensor(tensor.Float64, size))
	}
	s := optim.Step{Parameter: vector("p", state[0]), Gradient: vector("g", g), Keep: b.Input("keep", ir.Tensor(tensor.Float64))}
	for i, name := range r.Moments() {
		s.Moments = append(s.Moments, vector(name, state[i+1]))
	}
	for i, name := range r.Numbers() {
		in["number."+name] = []float64{r.At(rate, number)[i]}
		s.Numbers = append(s.Numbers, b.Input("number."+name, ir.Tensor(tensor.Float64)))
	}
	next, moments := optim.Update(b, r, s)
	b.Output("next", next)
	for i, name := range r.Moments() {
		b.Output("next."+name, moments[i])
	}
	out := run(t, b, in)
	result := [][]float64{out["next"]}
	for _, name := range r.Moments() {
		result = append(result, out["next."+name])
	}
	return result
}

func norm(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v * v
	}
	return math.Sqrt(s)
}

// TestRules does steps by the nodes of rules, and by the formulas of PyTorch and of the papers, element by element.
func TestRules(t *testing.T) {
	adam := func(m, v []float64, g []float64, b1, b2 float64) {
		for i := range g {
			m[i], v[i] = b1*m[i]+(1-b1)*g[i], b2*v[i]+(1-b2)*g[i]*g[i]
		}
	}
	sgd := func(s optim.SGD) func(p, g []float64, m [][]float64, rate float64, n int64) {
		return func(p, g []float64, m [][]float64, rate float64, n int64) {
			for i := range p {
				d := g[i] + s.WeightDecay*p[i]
				if s.Momentum != 0 {
					buf := &m[0][i]
					if n == 1 {
						*buf = d
					} else {
						*buf = s.Momentum**buf + (1-s.Dampening)*d
					}
					if s.Nesterov {
						d += s.Momentum * *buf
					} else {
						d = *buf
					}
				}
				p[i] -= rate * d
			}
		}
	}
	plain, damped := optim.SGD{WeightDecay: 0.1}, optim.SGD{Momentum: 0.9, Dampening: 0.3}
	nesterov := optim.SGD{Momentum: 0.8, Nesterov: true, WeightDecay: 0.05}
	for _, c := range []struct {
		name string
		rule optim.Rule
		want func(p, g []float64, m [][]float64, rate float64, n int64)
	}{
		{"AdamW", optim.AdamW{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.1},
			func(p, g []float64, m [][]float64, rate float64, n int64) {
				adam(m[0], m[1], g, 0.9, 0.99)
				for i := range p {
					p[i] *= 1 - rate*0.1
					mean, square := m[0][i]/(1-math.Pow(0.9, float64(n))), m[1][i]/(1-math.Pow(0.99, float64(n)))
					p[i] -= rate * mean / (math.Sqrt(square) + 1e-8)
				}
			}},
		{"SGD", plain, sgd(plain)},
		{"SGD with momentum", damped, sgd(damped)},
		{"SGD of Nesterov", nesterov, sgd(nesterov)},
		{"Lamb", optim.Lamb{Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, WeightDecay: 0.01},
			func(p, g []float64, m [][]float64, rate float64, n int64) {
				adam(m[0], m[1], g, 0.9, 0.999)
				u := make([]float64, len(p))
				for i := range p {
					mean, square := m[0][i]/(1-math.Pow(0.9, float64(n))), m[1][i]/(1-math.Pow(0.999, float64(n)))
					u[i] = mean/(math.Sqrt(square)+1e-6) + 0.01*p[i]
				}
				ratio := norm(p) / norm(u)
				for i := range p {
					p[i] -= rate * ratio * u[i]
				}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.rule.Check(); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(3, 4))
			draw := func() []float64 {
				v := make([]float64, size)
				for i := range v {
					v[i] = r.NormFloat64()
				}
				return v
			}
			got := [][]float64{draw()}
			for range c.rule.Moments() {
				got = append(got, make([]float64, size))
			}
			var want [][]float64
			for _, v := range got {
				want = append(want, append([]float64(nil), v...))
			}
			for n := int64(1); n <= 4; n++ {
				g, rate := draw(), 0.1/float64(n)
				before := got
				got = step(t, c.rule, got, g, rate, n, 1)
				c.want(want[0], g, want[1:], rate, n)
				for k := range got {
					for i := range got[k] {
						if math.Abs(got[k][i]-want[k][i]) > 1e-12 {
							t.Fatalf("step %d, tensor %d: expected %v, found %v", n, k, want[k], got[k])
						}
					}
				}
				g[2] = math.NaN()
				for k, v := range step(t, c.rule, before, g, rate, n, 0) {
					for i := range v {
						if v[i] != before[k][i] {
							t.Fatalf("a step that is not kept changes tensor %d from %v to %v", k, before[k], v)
						}
					}
				}
			}
		})
	}
}

// TestLambZero: a parameter of zeros moves as by Adam.
func TestLambZero(t *testing.T) {
	zero := make([]float64, size)
	out := step(t, optim.NewLamb(), [][]float64{zero, zero, zero}, []float64{1, -2, 3, -4, 5}, 0.5, 1, 1)
	for i, v := range out[0] {
		if want := 0.5 * math.Pow(-1, float64(i+1)); math.Abs(v-want) > 1e-5 {
			t.Errorf("expected %g, found %g", want, v)
		}
	}
}

func TestClipNorm(t *testing.T) {
	for _, c := range []struct{ limit, scale float64 }{{0, 1}, {100, 1}, {0.5, 0.5 / (13 + 1e-6)}} {
		b := builder()
		var g []*ir.Value
		for _, name := range []string{"a", "b", "c"} {
			g = append(g, b.Input(name, ir.Tensor(tensor.Float64, 2)))
		}
		clipped, norm, finite := optim.ClipNorm(b, g, c.limit)
		for i, v := range clipped {
			b.Output("out."+string(rune('a'+i)), v)
		}
		b.Output("norm", norm)
		b.Output("finite", finite)
		out := run(t, b, map[string][]float64{"a": {3, 4}, "b": {0, 0}, "c": {0, 12}})
		if out["norm"][0] != 13 || out["finite"][0] != 1 || math.Abs(out["out.c"][1]-12*c.scale) > 1e-12 {
			t.Errorf("limit %g: %v", c.limit, out)
		}
	}
	b := builder()
	_, _, finite := optim.ClipNorm(b, []*ir.Value{b.Input("a", ir.Tensor(tensor.Float64, 2))}, 1)
	b.Output("finite", finite)
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		if out := run(t, b, map[string][]float64{"a": {1, bad}}); out["finite"][0] != 0 {
			t.Errorf("a gradient with %g is finite", bad)
		}
	}
}

func TestAverage(t *testing.T) {
	b := builder()
	x := ir.Tensor(tensor.Float64, 2)
	b.Output("y", optim.Average(b, b.Input("a", x), b.Input("p", x), 0.75))
	if out := run(t, b, map[string][]float64{"a": {4, 0}, "p": {8, -4}}); out["y"][0] != 5 || out["y"][1] != -1 {
		t.Errorf("expected [5 -1], found %v", out["y"])
	}
}

func TestChecks(t *testing.T) {
	for _, c := range []struct {
		rule optim.Rule
		want string
	}{
		{optim.AdamW{Beta1: 1}, "betas"}, {optim.AdamW{Eps: -1}, "eps"}, {optim.AdamW{WeightDecay: -1}, "weight_decay"},
		{optim.Lamb{Beta2: math.NaN()}, "betas"}, {optim.SGD{Momentum: -1}, "momentum"}, {optim.SGD{Nesterov: true}, "nesterov"},
	} {
		if err := c.rule.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: expected an error about %s, found %v", c.rule, c.want, err)
		}
	}
	b := builder()
	p := b.Input("p", ir.Tensor(tensor.Float32, 2))
	optim.Update(b, optim.NewAdamW(), optim.Step{Parameter: p, Gradient: p})
	if b.Err() == nil || !strings.Contains(b.Err().Error(), "expected 2 moments and 3 numbers") {
		t.Errorf("a step without moments: %v", b.Err())
	}
}
