package passes

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
)

// Canonicalize removes operators without effect, and brings others into the form that later passes expect.
var Canonicalize = &Pass{
	Name: "canonicalize",
	Doc: "Removes operators without effect: identities, additions of 0, products with 1, casts to the same type, " +
		"transposes and reshapes that cancel.",
	Run: func(c *Context, g *ir.Graph) (int, error) { return Apply(c, g, canonicalRules) },
}

var canonicalRules = NewSet(
	&Rule{
		Name: "identity", Doc: "Identity(x) is x",
		Pattern: Op("Identity", Var("x")),
		Make:    func(_ *ir.Builder, m *Match) []*ir.Value { return []*ir.Value{m.Val("x")} },
	},
	&Rule{
		Name: "add-zero", Doc: "x + 0 is x",
		Pattern: Op("Add", Where("x", notConst), Where("k", filled(0))),
		Check:   sameTypeAsRoot,
		Make:    func(_ *ir.Builder, m *Match) []*ir.Value { return []*ir.Value{m.Val("x")} },
	},
	&Rule{
		Name: "sub-zero", Doc: "x - 0 is x",
		Pattern: Op("Sub", Where("x", notConst), Where("k", filled(0))),
		Check:   sameTypeAsRoot,
		Make:    func(_ *ir.Builder, m *Match) []*ir.Value { return []*ir.Value{m.Val("x")} },
	},
	&Rule{
		Name: "mul-one", Doc: "x · 1 is x",
		Pattern: Op("Mul", Where("x", notConst), Where("k", filled(1))),
		Check:   sameTypeAsRoot,
		Make:    func(_ *ir.Builder, m *Match) []*ir.Value { return []*ir.Value{m.Val("x")} },
	},
	&Rule{
		Name: "div-one", Doc: "x / 1 is x",
		Pattern: Op("Div", Where("x", notConst), Where("k", filled(1))),
		Check:   sameTypeAsRoot,
		Make:    func(_ *ir.Builder, m *Match) []*ir.Value { return []*ir.Value{m.Val("x")} },
	},
	&Rule{
		Name: "cast-same", Doc: "a cast to the type that the value has",
		Pattern: Op("Cast", Var("x")),
		Check:   sameTypeAsRoot,
		Make:    func(_ *ir.Builder, m *Match) []*ir.Value { return []*ir.Value{m.Val("x")} },
	},
	&Rule{
		Name: "transpose-transpose", Doc: "two transposes are one, or none",
		Pattern: Op("Transpose", Op("Transpose", Var("x")).As("inner").Shared()).As("outer"),
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			x := m.Val("x")
			first, second := ops.Permutation(m.Node("inner")), ops.Permutation(m.Node("outer"))
			both, same := make([]int64, len(second)), true
			for i, p := range second {
				both[i] = first[p]
				same = same && both[i] == int64(i)
			}
			if same {
				return []*ir.Value{x}
			}
			return []*ir.Value{b.Op("", "Transpose", []*ir.Value{x}, ir.A("perm", both))}
		},
	},
	&Rule{
		Name: "reshape-same", Doc: "a reshape to the shape that the value has",
		Pattern: Op("Reshape", Var("x"), Var("shape")),
		Check:   sameTypeAsRoot,
		Make:    func(_ *ir.Builder, m *Match) []*ir.Value { return []*ir.Value{m.Val("x")} },
	},
)

func notConst(v *ir.Value) bool { return v.Const == nil }

// sameTypeAsRoot refuses to drop an operator that changes the type or, by broadcasting, the shape.
func sameTypeAsRoot(m *Match) string {
	x, ok := m.Val("x").Type.(*ir.TensorType)
	y, oky := m.Root.Outputs[0].Type.(*ir.TensorType)
	if !ok || !oky || x.NoRank || y.NoRank || x.Elem != y.Elem || !x.Shape.Equal(y.Shape) {
		return Leave
	}
	return ""
}

// filled matches constants whose elements are all k.
func filled(k float64) func(*ir.Value) bool {
	return func(v *ir.Value) bool {
		return v.Const != nil && v.Const.Len() > 0 && v.Const.Len() <= 1<<16 && v.Const.Filled(k)
	}
}
