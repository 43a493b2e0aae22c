package cpu

import (
	"fmt"
	"math"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// system describes a random state-space operator.
type system struct {
	batch, length, ch, heads, n, h, m int
	direction                         string
	window                            int
	complexB, complexC                bool
	d                                 string // "", "diagonal", "full"
	state                             bool
	dense                             bool
}

func (s system) String() string {
	return fmt.Sprintf("B%d L%d C%d S%d n%d h%d m%d %s w%d cB%v cC%v D%s state%v dense%v", s.batch, s.length, s.ch,
		s.heads, s.n, s.h, s.m, s.direction, s.window, s.complexB, s.complexC, s.d, s.state, s.dense)
}

// ssm adds the operator to b. u has heads·h features.
func (s system) ssm(r Gen, b *ir.Builder, u, state *ir.Value) []*ir.Value {
	c := func(name string, t *tensor.Tensor) *ir.Value { return b.Const(name, t) }
	scale := 1 / math.Sqrt(float64(s.h))
	attrs := []ir.Attr{ir.A("direction", s.direction), ir.A("window", s.window)}
	outs := 1
	if s.state {
		outs = 2
	}
	var d *ir.Value
	switch s.d {
	case "diagonal":
		d = c("D", r.Floats(1, s.ch, s.heads, s.m))
	case "full":
		d = c("D", r.Floats(scale, s.ch, s.heads, s.m, s.h))
	}
	if s.dense {
		in := []*ir.Value{u,
			c("abar", r.Doubles(func() float64 { return 0.6 / math.Sqrt(float64(s.n)) * r.NormFloat64() }, s.ch,
				s.heads, s.n, s.n)),
			c("gamma", r.Doubles(func() float64 { return r.NormFloat64() / math.Sqrt(float64(s.n)) }, s.ch, s.heads,
				s.n, s.n)),
			c("B", r.Floats(scale, s.ch, s.heads, s.n, s.h)), c("C", r.Floats(scale, s.ch, s.heads, s.m, s.n)), d,
			state}
		return b.Ops("essm", "DenseSSM", outs, in, attrs...)
	}
	in := []*ir.Value{u,
		c("a_re", r.Doubles(func() float64 { return -math.Exp(-1 - 4*r.Float64()) }, s.ch, s.heads, s.n)),
		c("a_im", r.Doubles(func() float64 { return 2 * r.NormFloat64() }, s.ch, s.heads, s.n)),
		c("b_re", r.Doubles(r.NormFloat64, s.ch, s.heads, s.n)),
		c("b_im", r.Doubles(r.NormFloat64, s.ch, s.heads, s.n)),
		c("B", r.Floats(scale, s.ch, s.heads, s.n, s.h)), c("C", r.Floats(scale, s.ch, s.heads, s.m, s.n)), nil, nil, d,
		state}
	if s.complexB {
		in[7] = c("B_im", r.Floats(scale, s.ch, s.heads, s.n, s.h))
	}
	if s.complexC {
		in[8] = c("C_im", r.Floats(scale, s.ch, s.heads, s.m, s.n))
	}
	return b.Ops("essm", "SSM", outs, in, attrs...)
}

func (s system) stateSize() int {
	n := s.ch * s.heads * s.n
	switch {
	case s.dense:
		return n * (1 + s.window)
	case s.complexB:
		return n * (2 + 2*s.window)
	}
	return n * (2 + s.window)
}

// graph returns a model with only the operator, and inputs for it.
func (s system) graph(t testing.TB, seed uint64) (*ir.Graph, map[string]tensor.Datum) {
	r := NewGen(seed)
	b := ir.NewBuilder("system", ops.Default, ops.Opsets())
	u := b.Input("u", ir.Tensor(tensor.Float32, "B", "L", s.heads*s.h))
	in := map[string]tensor.Datum{"u": r.Floats(1, s.batch, s.length, s.heads*s.h)}
	var state *ir.Value
	if s.state {
		state = b.Input("state", ir.Tensor(tensor.Float32, "B", s.stateSize()))
	}
	out := s.ssm(r, b, u, state)
	b.Output("y", out[0])
	if s.state {
		b.Output("state_out", out[1])
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if s.state { // with a window only a state that belongs to some past means the same in every form
		in["state"] = tensor.New(tensor.Float32, s.batch, s.stateSize())
		in["state"] = Run(t, g, runtime.Options{Backend: ref.New()}, in)["state_out"]
		in["u"] = r.Floats(1, s.batch, s.length, s.heads*s.h)
	}
	return g, in
}

// systems returns systems of various shapes and kinds.
func systems() (all []system) {
	for i, dir := range Directions {
		for _, length := range []int{1, 2, 17, 300} {
			for _, window := range []int{0, 1, 5, 40} {
				k := len(all)
				s := system{batch: 1 + k%3, length: length, ch: 1 + k%2, heads: 1 + k%4, n: 1 + k%5, h: 1 + k%3,
					m: 1 + k%3, direction: dir,
					window: window, complexB: k%3 == 1, complexC: k%4 == 1, d: []string{"", "diagonal", "full"}[k%3],
					dense: k%5 == 2}
				if s.d == "diagonal" {
					s.m = s.h
				}
				s.state = i == 0 && k%2 == 0
				all = append(all, s)
				s.dense = !s.dense
				s.state = i == 0 && k%2 == 1
				all = append(all, s)
			}
		}
	}
	return all
}

func TestSystems(t *testing.T) {
	for i, s := range systems() {
		g, in := s.graph(t, uint64(i))
		want := Truth(t, g, in)
		for _, form := range []string{"", "scan", "chunked", "fft", "direct"} {
			got := Run(t, g, runtime.Options{Backend: New(), Kernel: form, Threads: 2}, in)
			CloseTo(t, form+" "+s.String(), got, want, 5e-6)
			on.Parameters(t, form+" "+s.String(), g, in, runtime.Options{Kernel: form})
		}
	}
}

// TestWideHeads tests systems with inputs that take so long to compute that the back pass keeps them for the main pass.
func TestWideHeads(t *testing.T) {
	for i, dir := range Directions {
		s := system{batch: 2, length: 300, ch: 1, heads: 2, n: 3, h: 200, m: 5, direction: dir}
		g, in := s.graph(t, uint64(i))
		got := Run(t, g, runtime.Options{Backend: New(), Threads: 1}, in)
		CloseTo(t, s.String(), got, Truth(t, g, in), 5e-6)
		if three := Run(t, g, runtime.Options{Backend: New(), Threads: 3}, in); !tensor.Equal(got["y"].(*tensor.Tensor),
			three["y"].(*tensor.Tensor)) {
			t.Errorf("%s: answers with 3 threads differ from those with 1", dir)
		}
	}
}
