package lower_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes/lower"
)

// branching returns a graph with a system in each branch of an If, itself in the then-branch of another If, and a
// system in the other branch that reads the result of the first. All read the input of the outer graph.
func branching(t *testing.T) *ir.Graph {
	t.Helper()
	system := kind{direction: essm.Bidirectional, c: 1, s: 2, n: 3, h: 1, m: 1}.graph(t)
	dense := kind{direction: essm.Forward, dense: true, c: 1, s: 2, n: 2, h: 1, m: 1}.graph(t)
	b := ir.NewBuilder("branching", ops.Default, ops.Opsets())
	u := b.Input("u", ir.Tensor(tensor.Float32, "B", "L", 2))
	outer, inner := b.Input("outer", ir.Tensor(tensor.Bool)), b.Input("inner", ir.Tensor(tensor.Bool))
	apply := func(b *ir.Builder, g *ir.Graph, u *ir.Value) *ir.Value {
		n := g.Nodes[0]
		in := append([]*ir.Value{u}, n.Inputs[1:]...)
		for i, v := range in {
			if v != nil && v.Const != nil {
				in[i] = b.Const(v.Name, v.Const)
			}
		}
		return b.Apply(n.Op, 1, in, n.Attrs)[0]
	}
	branch := func(b *ir.Builder, name string, f func(b *ir.Builder) *ir.Value) *ir.Graph {
		s := b.Sub(name)
		s.Output("", f(s))
		return s.Graph()
	}
	first := branch(b, "then", func(b *ir.Builder) *ir.Value {
		x := apply(b, system, u)
		a := branch(b, "a", func(b *ir.Builder) *ir.Value { return apply(b, dense, x) })
		c := branch(b, "b", func(b *ir.Builder) *ir.Value { return apply(b, system, u) })
		return b.Op("", "If", []*ir.Value{inner}, ir.A("then_branch", a), ir.A("else_branch", c))
	})
	second := branch(b, "else", func(b *ir.Builder) *ir.Value {
		return apply(b, dense, b.Op("", "Neg", []*ir.Value{u}))
	})
	b.Output("y", b.Op("", "If", []*ir.Value{outer}, ir.A("then_branch", first), ir.A("else_branch", second)))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSubgraphs checks that systems in branches are expanded like those around them.
func TestSubgraphs(t *testing.T) {
	g := branching(t)
	for _, o := range []lower.Options{{}, {Opset: 13}, {Functions: true}} {
		out, _, err := lower.Lower(g, o)
		if err != nil {
			t.Fatal(err)
		}
		_ = out.Walk(func(_ *ir.Graph, n *ir.Node) error {
			if n.Op.Domain != "" {
				t.Errorf("%v is left", n)
			}
			return nil
		})
		for i := range 4 {
			for _, length := range []int64{1, 65} {
				in := feed(t, &ir.Graph{Inputs: g.Inputs[:1]}, map[string]int64{"B": 2, "L": length}, true)
				maps.Copy(in, map[string]tensor.Datum{"outer": tensor.Scalar(i < 2), "inner": tensor.Scalar(i%2 == 0)})
				if d := differ(t, run(t, out, in, true), run(t, g, in, true)); !(d < 3e-7) {
					t.Errorf("%s: differs by %.3g", fmt.Sprint(o, i, length), d)
				}
			}
		}
	}
}
