package acme

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/match"
)

// Centers finds Center where a graph has it in operators of ONNX.
var Centers = &passes.Pass{
	Name: "acme-centers",
	Doc:  "x − ReduceMean(x) along the last axis → acme.Center.",
	After: []passes.Reason{
		{Pass: "canonicalize", Why: "the pattern is written for canonical forms"},
	},
	Before: []passes.Reason{
		{Pass: "dce", Why: "the mean may have no other reader then"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) { return passes.Apply(c, g, rules) },
}

var rules = match.NewSet(&match.Rule{
	Name: "center", Doc: "x − ReduceMean(x)",
	Pattern: match.Op("Sub", match.Var("x"),
		match.Op("ReduceMean", match.Var("x"), match.Const("axes")).If(keepsAxes)),
	Check: func(m *match.Match) string {
		axes, err := m.Val("axes").Const.Int64s()
		rank := int64(len(m.Val("x").Shape()))
		if t, ok := ir.AsTensor(m.Val("x").Type); err != nil || !ok || t.NoRank || t.Elem != tensor.Float32 ||
			len(axes) != 1 || axes[0] != -1 && axes[0] != rank-1 {
			return "the mean is not along the last axis"
		}
		return ""
	},
	Make: func(b *ir.Builder, m *match.Match) []*ir.Value {
		b.Import(Center.Domain, Center.Since)
		return []*ir.Value{b.Op(Center.Domain, Center.Name, []*ir.Value{m.Val("x")})}
	},
})

func keepsAxes(n *ir.Node) bool { return n.Attrs.Int("keepdims", 1) == 1 }
