package lower_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

// kind is a combination of a system's options.
type kind struct {
	dense, complexIn, complexOut, state bool
	direction                           string
	window, c, s, n, h, m               int
	unstable                            bool
}

// graph returns a graph of one system with random constants. With a state it has two outputs.
func (k kind) graph(t *testing.T) *ir.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	b := ir.NewBuilder("one", ops.Default, ops.Opsets())
	random := func(name string, elem tensor.DType, f func() float64, shape ...int) *ir.Value {
		size, _ := tensor.Size(shape)
		x := make([]float64, size)
		for i := range x {
			x[i] = f()
		}
		v, err := tensor.FromFloat64s(elem, x, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return b.Const(name, v)
	}
	real := func() float64 {
		if k.unstable {
			return 0.3
		}
		return -0.01 - r.Float64()
	}
	u := b.Input("u", ir.Tensor(tensor.Float32, "B", "L", k.s*k.h))
	c, s, n := k.c, k.s, k.n
	per := 2 + k.window
	if k.complexIn {
		per += k.window
	}
	if k.dense {
		per = 1 + k.window
	}
	var state *ir.Value
	outs := 1
	if k.state {
		state, outs = b.Input("state", ir.Tensor(tensor.Float32, "B", c*s*n*per)), 2
	}
	d := random("D", tensor.Float32, r.NormFloat64, c, s, k.m)
	if k.h != k.m {
		d = random("D", tensor.Float32, r.NormFloat64, c, s, k.m, k.h)
	}
	bm, cm := random("B", tensor.Float32, r.NormFloat64, c, s, n, k.h),
		random("C", tensor.Float32, r.NormFloat64, c, s, k.m, n)
	attrs := []ir.Attr{ir.A("direction", k.direction), ir.A("window", k.window)}
	var out []*ir.Value
	if k.dense {
		abar := random("abar", tensor.Float64, func() float64 { return (r.Float64() - 0.5) / float64(n) * 1.8 }, c, s,
			n, n)
		gamma := random("gamma", tensor.Float64, r.NormFloat64, c, s, n, n)
		out = b.Ops("essm", "DenseSSM", outs, []*ir.Value{u, abar, gamma, bm, cm, d, state}, attrs...)
	} else {
		var bi, ci *ir.Value
		if k.complexIn {
			bi = random("B_im", tensor.Float32, r.NormFloat64, c, s, n, k.h)
		}
		if k.complexOut {
			ci = random("C_im", tensor.Float32, r.NormFloat64, c, s, k.m, n)
		}
		angle := func() float64 { return 6 * (r.Float64() - 0.5) }
		out = b.Ops("essm", "SSM", outs, []*ir.Value{u, random("a_re", tensor.Float64, real, c, s, n),
			random("a_im", tensor.Float64, angle, c, s, n),
			random("b_re", tensor.Float64, r.NormFloat64, c, s, n),
			random("b_im", tensor.Float64, r.NormFloat64, c, s, n), bm, cm, bi, ci, d, state}, attrs...)
	}
	b.Output("y", out[0])
	if k.state {
		b.Output("state_out", out[1])
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// kinds returns all valid combinations.
func kinds() []kind {
	var all []kind
	for _, direction := range []string{essm.Forward, essm.Backward, essm.Bidirectional} {
		for _, sizes := range [][5]int{{1, 2, 3, 2, 2}, {2, 2, 2, 1, 1}, {1, 3, 1, 1, 1}, {2, 1, 5, 3, 2}} {
			for _, window := range []int{0, 1, 9} {
				for _, state := range []bool{false, true} {
					if state && direction != essm.Forward {
						continue
					}
					k := kind{direction: direction, window: window, state: state, c: sizes[0], s: sizes[1], n: sizes[2],
						h: sizes[3], m: sizes[4]}
					for i := range 5 {
						k.dense, k.complexIn, k.complexOut = i == 4, i < 4 && i&1 == 1, i < 4 && i&2 == 2
						all = append(all, k)
					}
				}
			}
		}
	}
	return append(all, kind{direction: essm.Forward, unstable: true, c: 1, s: 1, n: 2, h: 1, m: 1},
		kind{direction: essm.Bidirectional, unstable: true, c: 1, s: 1, n: 2, h: 1, m: 1})
}

// withState returns inputs with a state that can occur after a sequence: with a window, its parts depend on each other.
func (k kind) withState(t *testing.T, g *ir.Graph, length int64) map[string]tensor.Datum {
	in := feed(t, g, map[string]int64{"B": 2, "L": length}, true)
	if k.state {
		x := in["state"].(*tensor.Tensor)
		clear(x.Bytes())
		in["state"] = tensor.FromSlice(run(t, g, in, true)["state_out"], x.Shape()...)
	}
	return in
}

func TestSystems(t *testing.T) {
	for _, k := range kinds() {
		t.Run(fmt.Sprintf("%+v", k), func(t *testing.T) {
			g := k.graph(t)
			out, _, err := lower.Lower(g, lower.Options{Opset: 17})
			if err != nil {
				t.Fatal(err)
			}
			_, functions, err := lower.Lower(g, lower.Options{Opset: 17, Functions: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, length := range []int64{1, 5, 70} {
				in := k.withState(t, g, length)
				want := run(t, g, in, true)
				if d := differ(t, run(t, out, in, true), want); !(d < 1e-6) { // tables are float32
					t.Errorf("%d steps: differs by %.3g", length, d)
				}
				body := functions[0].Body.Clone()
				given := map[string]tensor.Datum{}
				n := functions[0].Nodes[0]
				for i, p := range body.Inputs {
					switch v := n.In(i); {
					case v == nil:
						p.Type = ir.Tensor(tensor.Float32)
						given[p.Name] = tensor.Scalar(float32(0))
					case v.Const != nil:
						given[p.Name] = v.Const
					default:
						given[p.Name] = in[v.Name]
					}
				}
				if d := differ(t, run(t, body, given, true), want); !(d < 1e-12) {
					t.Errorf("%d steps, body: differs by %.3g", length, d)
				}
			}
		})
	}
}

// TestSystemsRaised lowers systems in chunks, as a recurrence, or with a window as a convolution. Package raise must put
// them back with the same numbers, except that B and C are those of the file.
func TestSystemsRaised(t *testing.T) {
	for _, k := range kinds() {
		t.Run(fmt.Sprintf("%+v", k), func(t *testing.T) {
			g := k.graph(t)
			out, _, err := lower.Lower(g, lower.Options{Opset: 17})
			if err != nil {
				t.Fatal(err)
			}
			back := out.Clone()
			if err := passes.Run(back, []*passes.Pass{raise.Exported},
				passtest.Verified(t)); err != nil {
				t.Fatal(err)
			}
			op := "essm.SSM"
			if k.dense {
				op = "essm.DenseSSM"
			}
			if len(back.Nodes) != 1 || back.Nodes[0].Op.FullName() != op {
				t.Fatalf("%d nodes; %v", len(back.Nodes), back.History)
			}
			in := k.withState(t, g, 70)
			if d := differ(t, run(t, back, in, true), run(t, g, in, true)); !(d < 1e-6) {
				t.Errorf("differs by %.3g", d)
			}
		})
	}
}
