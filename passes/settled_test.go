package passes_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
)

// TestSettled follows values from parameters: through operators and constants, but not from inputs, random numbers and
// parameters that a run updates.
func TestSettled(t *testing.T) {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	do := func(op string, in ...*ir.Value) *ir.Value { return b.Op("", op, in) }
	x := b.Input("x", ir.Tensor(tensor.Float32, 2))
	w, u := b.Parameter("w", tensor.New(tensor.Float32, 2)), b.Parameter("u", tensor.New(tensor.Float32, 2))
	unread := b.Parameter("unread", tensor.New(tensor.Float32, 2))
	k := b.Const("k", tensor.New(tensor.Float32, 2))
	settled := do("Add", do("Neg", w), do("Exp", k))
	varies := []*ir.Value{do("Mul", settled, x), do("Mul", w, u), do("RandomNormalLike", w)}
	next := do("Identity", do("Sub", u, do("Mul", x, w))) // canonicalize takes the Identity away
	b.Output("next", next)
	for _, v := range varies {
		b.Output("", v)
	}
	b.Update(u, next)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := passes.SettledOf(nil, g)
	for _, v := range []*ir.Value{w, settled, settled.Def.In(0), settled.Def.In(1)} {
		if !s[v] {
			t.Errorf("%s is not settled", v.Name)
		}
	}
	for _, v := range append(varies, x, u, next) {
		if s[v] {
			t.Errorf("%s is settled", v.Name)
		}
	}
	if err := passes.Optimize(g); err != nil { // verifies that the update is from an output
		t.Fatal(err)
	}
	if len(g.Updates) != 1 || g.Updates[0].Parameter != u || g.Updates[0].Output != g.Outputs[0] || g.Outputs[0].Name != "next" ||
		g.Outputs[0].Def.Op.Name != "Sub" {
		t.Errorf("updates %v, outputs %v", g.Updates, g.Outputs)
	}
	if g.Parameter("unread") != unread {
		t.Error("a parameter that nothing reads is gone")
	}
}
