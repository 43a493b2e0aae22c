package idiom

import (
	"fmt"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Norm replaces norms that were written in smaller operators by single operators.
var Norm = &passes.Pass{
	Name: "raise-norm",
	Doc: "ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div → LayerNormalization, over the last axis or, between " +
		"transposes, another; the same without the mean → RMSNormalization; factors and shifts after them join; " +
		"BatchNormalization of (B, C, L) → essm.BatchNorm between transposes.",
	After: []passes.Reason{
		{Pass: "cse", Why: "exporters subtract the mean once for the variance and once for the result"},
	},
	Before: []passes.Reason{
		{Pass: "fold-norm", Why: "the batch norms that it makes are folded into their neighbors"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) { return passes.Apply(c, g, normRules()) },
}

// overRoot returns the patterns that divide x by √v.
func overRoot(x, v Pattern) []*OpPattern {
	root := Op("Sqrt", v)
	return []*OpPattern{
		Op("Div", x, root), Op("Mul", x, Op("Reciprocal", root)), Op("Mul", x, Op("Div", number("one", 1), root)),
		Op("Mul", x, Op("Pow", v, number("power", -0.5))), Op("Div", x, Op("Pow", v, number("power", 0.5))),
	}
}

var normRules = sync.OnceValue(func() *Set {
	x := Var("x")
	mean := func(p Pattern, name string) *OpPattern { return Op("ReduceMean", p, Const("axes "+name)).As(name) }
	squares := func(p Pattern) []Pattern { return []Pattern{Op("Mul", p, p), Op("Pow", p, number("two", 2))} }
	epsilon := Where("epsilon", func(v *ir.Value) bool { e, ok := asScalar(v); return ok && e >= 0 })
	var rules []*Rule
	centred := Op("Sub", x, mean(x, "mean")).As("centred").Shared()
	for _, sq := range squares(centred) {
		for _, p := range overRoot(centred, Op("Add", mean(sq, "variance"), epsilon)) {
			rules = append(rules, &Rule{Name: "layer-norm", Doc: "(x - mean)/√(variance + ε) is LayerNormalization",
				Pattern: p,
				Check:   checkNorm("mean", "variance"), Make: makeNorm("LayerNormalization", "variance")})
		}
	}
	for _, sq := range squares(x) {
		for _, p := range overRoot(x, Op("Add", mean(sq, "variance"), epsilon)) {
			rules = append(rules, &Rule{Name: "rms-norm", Doc: "x/√(mean of squares + ε) is RMSNormalization",
				Pattern: p,
				Check:   checkNorm("variance"), Make: makeNorm("RMSNormalization", "variance")})
		}
	}
	for _, name := range []string{"LayerNormalization", "RMSNormalization"} {
		rules = append(rules, affineRules(name)...)
	}
	return NewSet(append(rules, batchNorm)...)
})

// checkNorm refuses means over different axes, over time and batch, or without keepdims.
func checkNorm(means ...string) func(m *Match) string {
	return func(m *Match) string {
		var first []int
		rank := len(m.Val("x").Shape())
		for _, name := range means {
			n := m.Node(name)
			axes, ok := asAxes(n, rank)
			switch {
			case rank == 0 || !ok || len(axes) == 0:
				return passes.Leave
			case !n.Attrs.Bool("keepdims", true):
				return fmt.Sprintf("%v removes its axes %v, expected keepdims 1", n, axes)
			case first != nil && !slices.Equal(first, axes):
				return fmt.Sprintf("the mean is over axes %v, the variance over %v", first, axes)
			}
			first = axes
		}
		if _, ok := normalized(m.Val("x").Shape(), first); !ok {
			return fmt.Sprintf("it is over axes %v of shape %v; expected one axis or the last ones, of fixed sizes",
				first, m.Val("x").Shape())
		}
		return ""
	}
}

// asAxes returns the sorted axes of a ReduceMean. It returns false if they are not constant or not valid.
func asAxes(n *ir.Node, rank int) (axes []int, ok bool) {
	list, ok := ops.ConstInts(n.In(1))
	if !ok {
		return nil, false
	}
	axes, err := ops.AxesOf(list, rank)
	return axes, err == nil
}

// normalized returns the sizes of the axes of a norm: the last ones, or a single one anywhere.
func normalized(s ir.Shape, axes []int) ([]int, bool) {
	var out []int
	for i, a := range axes {
		n, ok := s[a].Known()
		if !ok || len(axes) > 1 && a != len(s)-len(axes)+i {
			return nil, false
		}
		out = append(out, int(n))
	}
	return out, true
}

// makeNorm returns a function that builds a norm without scale and shift.
func makeNorm(op, mean string) func(b *ir.Builder, m *Match) []*ir.Value {
	return func(b *ir.Builder, m *Match) []*ir.Value {
		x := m.Val("x")
		rank := len(x.Shape())
		axes, _ := asAxes(m.Node(mean), rank)
		sizes, _ := normalized(x.Shape(), axes)
		n := 1
		for _, d := range sizes {
			n *= d
		}
		scale, err := tensor.FromFloat64s(x.Elem(), slices.Repeat([]float64{1}, n), sizes...)
		if err != nil {
			b.Fail(err)
			return nil
		}
		eps, _ := asScalar(m.Val("epsilon"))
		norm := func(x *ir.Value, axis int) *ir.Value {
			return b.Op("", op, []*ir.Value{x, b.Const("scale", scale)}, ir.A("axis", axis-rank), ir.A("epsilon", eps))
		}
		if len(axes) == 1 && axes[0] != rank-1 {
			return []*ir.Value{lastAxis(b, x, axes[0], func(x *ir.Value) *ir.Value { return norm(x, rank-1) })}
		}
		return []*ir.Value{norm(x, axes[0])}
	}
}

// lastAxis applies f with the given axis moved to the end.
func lastAxis(b *ir.Builder, x *ir.Value, axis int, f func(x *ir.Value) *ir.Value) *ir.Value {
	order, back := toLast(len(x.Shape()), axis)
	y := f(b.Op("", "Transpose", []*ir.Value{x}, ir.A("perm", order)))
	return b.Op("", "Transpose", []*ir.Value{y}, ir.A("perm", back))
}

// toLast returns the order of axes that moves one to the end, and the inverse order.
func toLast(rank, axis int) (order, back []int64) {
	for i := range rank {
		if i != axis {
			order = append(order, int64(i))
		}
	}
	order = append(order, int64(axis))
	return order, regions.InverseOrder(order)
}

// alongAxis returns the n elements of a constant that varies along one axis only of a tensor of the given rank. It
// repeats a single number.
func alongAxis(v *ir.Value, rank, axis int, n int) ([]float64, bool) {
	if v.Const == nil || !v.Elem().IsFloat() || v.Const.Rank() > rank {
		return nil, false
	}
	x, err := v.Const.Float64s()
	if err != nil {
		return nil, false
	}
	for i, d := range v.Const.Shape() {
		if at := i + rank - v.Const.Rank(); d != 1 && (at != axis || d != n) {
			return nil, false
		}
	}
	if len(x) == 1 {
		return slices.Repeat(x, n), true
	}
	return x, len(x) == n
}

// variesAlong reports whether alongAxis accepts a constant, or a settled value by its shape.
func variesAlong(m *Match, v *ir.Value, rank, axis, n int) bool {
	if v.Const != nil {
		_, ok := alongAxis(v, rank, axis, n)
		return ok
	}
	return m.IsFixed(v) && passes.VariesAlong(v, rank, axis, int64(n))
}

// vectorOf returns the n elements of a value that variesAlong accepts, in its type: of a constant as a constant.
func vectorOf(b *ir.Builder, v *ir.Value, rank, axis, n int) *ir.Value {
	if v.Const != nil {
		k, _ := alongAxis(v, rank, axis, n)
		return regions.Typed(b, v.Name, v.Elem(), k, len(k))
	}
	if s := v.Shape(); len(s) == 1 && s[0].Equal(ir.Const(int64(n))) {
		return v
	}
	v = b.Op("", "Reshape", []*ir.Value{v, b.Ints(-1)})
	return b.Op("", "Expand", []*ir.Value{v, b.Ints(int64(n))})
}

// affineRules returns the rules that move a factor and a shift into the norm before them, also across a transpose.
func affineRules(op string) []*Rule {
	plain := Op(op, Var("x"), Fixed("scale")).As("norm")
	var rules []*Rule
	add := func(name, outer string, inner *OpPattern) {
		for _, behind := range []*OpPattern{inner, Op("Transpose", inner).As("transpose")} {
			rules = append(rules, &Rule{
				Name: name, Doc: "a factor or shift per feature after a norm belongs to it",
				Pattern: Op(outer, behind, Fixed("k")),
				Check: func(m *Match) string {
					if axis, n := featureAxis(m); n < 0 || !variesAlong(m, m.Val("k"), len(m.Root.Outputs[0].Shape()),
						axis, n) {
						return passes.Leave
					}
					return ""
				},
				Make: func(b *ir.Builder, m *Match) []*ir.Value {
					n := m.Node("norm")
					in := slices.Clone(n.Inputs)
					switch {
					case outer == "Add":
						in = append(in[:2], perFeature(b, m))
					case passes.AllConst(in[1], m.Val("k")):
						axis, count := featureAxis(m)
						k, _ := alongAxis(m.Val("k"), len(m.Root.Outputs[0].Shape()), axis, count)
						scale, err := in[1].Const.Float64s()
						if err != nil {
							b.Fail(err)
							return nil
						}
						for i := range scale {
							scale[i] *= k[i]
						}
						in[1] = regions.Typed(b, "scale", n.In(0).Elem(), scale, len(scale))
					case in[1].Const != nil && in[1].Const.Filled(1): // as the norm was raised
						in[1] = perFeature(b, m)
					default:
						in[1] = b.Op("", "Mul", []*ir.Value{in[1], perFeature(b, m)})
					}
					y := b.Op("", op, in, n.Attrs...)
					if t := m.Node("transpose"); t != nil {
						y = b.Op("", "Transpose", []*ir.Value{y}, t.Attrs...)
					}
					return []*ir.Value{y}
				},
			})
		}
	}
	add("norm-scale", "Mul", plain)
	if op == "LayerNormalization" {
		add("norm-shift", "Add", plain)
	}
	return rules
}

// featureAxis returns the axis of the features behind a norm over its last axis, and their number; -1: the match has
// another form.
func featureAxis(m *Match) (axis, n int) {
	norm := m.Node("norm")
	rank := len(norm.In(0).Shape())
	if rank == 0 || len(norm.In(1).Shape()) != 1 || len(m.Root.Outputs[0].Shape()) != rank {
		return 0, -1
	}
	axis = rank - 1
	if t := m.Node("transpose"); t != nil {
		axis = slices.Index(ops.Permutation(t), int64(rank-1))
	}
	return axis, dimOf(norm.In(1), 0)
}

// perFeature returns the value after a norm, one number per feature, in the type of the norm's input.
func perFeature(b *ir.Builder, m *Match) *ir.Value {
	axis, n := featureAxis(m)
	k, elem := m.Val("k"), m.Node("norm").In(0).Elem()
	rank := len(m.Root.Outputs[0].Shape())
	if k.Const != nil {
		x, _ := alongAxis(k, rank, axis, n)
		return regions.Typed(b, "shift", elem, x, n)
	}
	if k = vectorOf(b, k, rank, axis, n); k.Elem() != elem {
		k = b.Op("", "Cast", []*ir.Value{k}, ir.A("to", int(elem)))
	}
	return k
}

// batchNorm replaces a batch norm with fixed statistics by one over the last axis.
var batchNorm = &Rule{
	Name: "batch-norm", Doc: "BatchNormalization with constants is essm.BatchNorm, over the last axis",
	Pattern: Op("BatchNormalization", Var("x"), Fixed("scale"), Fixed("bias"), Fixed("mean"), Fixed("var")),
	Check: func(m *Match) string {
		rank := len(m.Val("x").Shape())
		switch {
		case m.Root.Attrs.Bool("training_mode", false):
			return "it is in training mode, where the statistics depend on its input"
		case rank != 2 && rank != 3:
			return passes.Leave
		}
		for _, name := range []string{"scale", "bias", "mean", "var"} {
			if m.Val(name).Elem() != m.Val("x").Elem() {
				return fmt.Sprintf("its %s has type %v, its input %v", name, m.Val(name).Elem(), m.Val("x").Elem())
			}
		}
		return ""
	},
	Make: func(b *ir.Builder, m *Match) []*ir.Value {
		norm := func(x *ir.Value) *ir.Value {
			return b.Op("essm", "BatchNorm", []*ir.Value{x, m.Val("scale"), m.Val("bias"), m.Val("mean"), m.Val("var")},
				ir.A("epsilon", m.Root.Attrs.Float("epsilon", 1e-5)))
		}
		x, y := m.Val("x"), (*ir.Value)(nil)
		if len(x.Shape()) == 2 {
			y = norm(x)
		} else {
			y = lastAxis(b, x, 1, norm)
		}
		made := []*ir.Value{y}
		for i, name := range []string{"mean", "var"} { // the other outputs are the statistics, outside of training
			if m.Root.Out(i+1) != nil {
				made = append(made, b.Op("", "Identity", []*ir.Value{m.Val(name)}))
			} else {
				made = append(made, nil)
			}
		}
		return made
	},
}
