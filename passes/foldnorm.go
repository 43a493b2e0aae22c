package passes

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
)

// FoldNorm replaces batch norms with fixed statistics by affine maps, and folds these into their neighbors.
var FoldNorm = &Pass{
	Name: "fold-norm",
	Doc: "Batch norm with fixed statistics → scale and shift in float64. Two in a row become one. One beside a " +
		"linear layer becomes part of its weights, also across the mean, first or last step over time. What follows " +
		"from parameters is written as nodes.",
	Run: func(c *Context, g *ir.Graph) (int, error) { return Apply(c, g, normRules) },
}

var normRules = NewSet(
	&Rule{
		Name: "batchnorm-affine", Doc: "a batch norm of constants is a scale and a shift",
		Pattern: Op("essm.BatchNorm", Var("x"), Fixed("weight"), Fixed("bias"), Fixed("mean"), Fixed("var")),
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			if v := m.Val; !AllConst(v("weight"), v("bias"), v("mean"), v("var")) {
				scale, shift := written{b}.batchNorm(v("weight"), v("bias"), v("mean"), v("var"),
					m.Root.Attrs.Float("epsilon", 1e-5))
				return affineOf(b, v("x"), scale, shift)
			}
			f := func(name string) []float64 { return floats(b, m.Val(name)) }
			scale, shift := essm.BatchNormAffine(f("weight"), f("bias"), f("mean"), f("var"),
				m.Root.Attrs.Float("epsilon", 1e-5))
			return []*ir.Value{affine(b, m.Val("x"), scale, shift)}
		},
	},
	&Rule{
		Name: "affine-affine", Doc: "two affine maps in a row are one",
		Pattern: Op("essm.Affine", Op("essm.Affine", Var("x"), Fixed("s0"), Fixed("t0")), Fixed("s1"), Fixed("t1")),
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			if v := m.Val; !AllConst(v("s0"), v("t0"), v("s1"), v("t1")) {
				scale, shift := written{b}.affine(v("s0"), v("t0"), v("s1"), v("t1"))
				return affineOf(b, v("x"), scale, shift)
			}
			s0, t0, s1, t1 := floats(b, m.Val("s0")), floats(b, m.Val("t0")), floats(b, m.Val("s1")),
				floats(b, m.Val("t1"))
			for i := range s0 {
				s0[i], t0[i] = s0[i]*s1[i], t0[i]*s1[i]+t1[i]
			}
			return []*ir.Value{affine(b, m.Val("x"), s0, t0)}
		},
	},
	&Rule{
		Name: "affine-pick", Doc: "a mean, first or last step of an affine map is the affine map of it",
		Pattern: Op("essm.Pick", Op("essm.Affine", Var("x"), Fixed("s"), Fixed("t")), Var("lengths")).
			If(func(n *ir.Node) bool { return n.Attrs.Str("mode", "") != "sum" }),
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			p := b.Op("essm", "Pick", []*ir.Value{m.Val("x"), m.Val("lengths")}, m.Root.Attrs...)
			return []*ir.Value{b.Op("essm", "Affine", []*ir.Value{p, m.Val("s"), m.Val("t")})}
		},
	},
	&Rule{
		Name: "affine-linear", Doc: "an affine map before a linear layer goes into its weight and bias",
		Pattern: Op("essm.Linear", Op("essm.Affine", Var("x"), Fixed("s"), Fixed("t")), Fixed("w"), Fixed("b")),
		Check:   fits,
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			if v := m.Val; !AllConst(v("w"), v("b"), v("s"), v("t")) {
				w, bias := written{b}.before(v("w"), v("b"), v("s"), v("t"))
				return []*ir.Value{b.Op("essm", "Linear", []*ir.Value{v("x"), w, bias})}
			}
			w, bias, s, t := floats(b, m.Val("w")), floats(b, m.Val("b")), floats(b, m.Val("s")), floats(b, m.Val("t"))
			k := len(s)
			for i := range bias {
				for j := range k {
					bias[i] += w[i*k+j] * t[j]
					w[i*k+j] *= s[j]
				}
			}
			return []*ir.Value{linear(b, m, w, bias)}
		},
	},
	&Rule{
		Name: "linear-affine", Doc: "an affine map after a linear layer is folded into its weight and bias",
		Pattern: Op("essm.Affine", Op("essm.Linear", Var("x"), Fixed("w"), Fixed("b")), Fixed("s"), Fixed("t")),
		Check:   fits,
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			if v := m.Val; !AllConst(v("w"), v("b"), v("s"), v("t")) {
				w, bias := written{b}.after(v("w"), v("b"), v("s"), v("t"))
				return []*ir.Value{b.Op("essm", "Linear", []*ir.Value{v("x"), w, bias})}
			}
			w, bias, s, t := floats(b, m.Val("w")), floats(b, m.Val("b")), floats(b, m.Val("s")), floats(b, m.Val("t"))
			k := len(w) / max(1, len(bias))
			for i := range bias {
				bias[i] = bias[i]*s[i] + t[i]
				for j := range k {
					w[i*k+j] *= s[i]
				}
			}
			return []*ir.Value{linear(b, m, w, bias)}
		},
	},
)

// fits refuses weights which the lowering would not compute in advance.
func fits(m *Match) string {
	if w := m.Val("w"); w.Const == nil && !ops.Settles(w) {
		return Leave
	}
	return ""
}

// floats returns the numbers of a constant. Its inferred type is real.
func floats(b *ir.Builder, v *ir.Value) []float64 {
	x, err := v.Const.Float64s()
	if err != nil {
		b.Fail(err)
	}
	return x
}

func affineOf(b *ir.Builder, x, scale, shift *ir.Value) []*ir.Value {
	return []*ir.Value{b.Op("essm", "Affine", []*ir.Value{x, scale, shift})}
}

func affine(b *ir.Builder, x *ir.Value, scale, shift []float64) *ir.Value {
	return b.Op("essm", "Affine", []*ir.Value{x, b.Const("scale", tensor.FromSlice(scale, len(scale))),
		b.Const("shift", tensor.FromSlice(shift, len(shift)))})
}

// linear makes a Linear with folded weights. They stay float64, so that a plan in double precision computes the same
// as its source.
func linear(b *ir.Builder, m *Match, w, bias []float64) *ir.Value {
	shape := m.Val("w").Const.Shape()
	return b.Op("essm", "Linear", []*ir.Value{m.Val("x"),
		b.Const(m.Val("w").Name+".folded", tensor.FromSlice(w, shape...)),
		b.Const(m.Val("b").Name+".folded", tensor.FromSlice(bias, len(bias)))})
}
