package stepgraph_test

import (
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
)

// TestParameters: the step graph of a graph with parameters has the same ones in the same order, and no updates, also if it
// has fewer outputs, or is the graph itself.
func TestParameters(t *testing.T) {
	for _, carry := range []bool{false, true} {
		b := ir.NewBuilder("g", ops.Default, ops.Opsets())
		x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 2))
		state := b.Input("state", ir.Tensor(tensor.Float32, "B", 2))
		w := b.Parameter("w", tensor.New(tensor.Float32, 2))
		b.Parameter("unread", tensor.New(tensor.Float32, 3))
		v := b.Parameter("v", tensor.New(tensor.Float32, 2))
		y := b.Op("", "Mul", []*ir.Value{x, b.Op("", "Exp", []*ir.Value{v})})
		b.Output("y", b.Op("", "Add", []*ir.Value{y, w}))
		b.Output("z", b.Op("", "Sin", []*ir.Value{x}))
		b.Output("next", b.Op("", "Add", []*ir.Value{state, w}))
		b.Output("w.new", b.Op("", "Neg", []*ir.Value{w}))
		b.Update(w, b.Graph().Outputs[3])
		g := b.Graph()
		g.Meta = map[string]string{ir.MetaTime: "L", ir.MetaBatch: "B"}
		if carry {
			g.Meta[ir.MetaCarry] = `{"state": "next"}`
		}
		if _, err := b.Build(); err != nil {
			t.Fatal(err)
		}
		for _, outputs := range [][]string{nil, {"z"}} {
			sg, err := stepgraph.Of(g, outputs...)
			if err != nil {
				t.Fatal(err)
			}
			names := func(vs []*ir.Value) (list []string) {
				for _, v := range vs {
					list = append(list, v.Name)
				}
				return list
			}
			if a, b := names(g.Parameters), names(sg.Graph.Parameters); !slices.Equal(a, b) {
				t.Errorf("carry %v, outputs %q: parameters %q, expected %q", carry, outputs, b, a)
			}
			if len(sg.Graph.Updates) > 0 || len(g.Updates) != 1 {
				t.Errorf("carry %v, outputs %q: %d updates, the source %d", carry, outputs, len(sg.Graph.Updates), len(g.Updates))
			}
			for i, p := range sg.Graph.Parameters {
				if p.Init != g.Parameters[i].Init || p == g.Parameters[i] {
					t.Errorf("parameter %s is not a copy with the same content", p.Name)
				}
			}
		}
	}
}
