package idiom

import (
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Layout moves transposes after elementwise operators, and raises sums over time.
var Layout = &passes.Pass{
	Name: "raise-layout",
	Doc: "Moves transposes after elementwise operators, so that those around (B, C, L) layers cancel. A mean, first " +
		"or last over time → essm.Pick, if the graph has a state-space layer.",
	After: []passes.Reason{
		{Pass: "raise-activation", Why: "a transpose moves after an activation that is one operator"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		n, err := passes.Apply(c, g, layoutRules())
		if err != nil || !slices.ContainsFunc(g.Nodes, isStateSpace) {
			return n, err
		}
		k, err := passes.Apply(c, g, pickRules(timeFacts(g)))
		return n + k, err
	},
}

func isStateSpace(n *ir.Node) bool { return ops.IsSystem(n.Op) || n.Op.FullName() == "essm.LongConv" }

var layoutRules = sync.OnceValue(func() *Set {
	var rules []*Rule
	for _, op := range []string{"Gelu", "Relu", "LeakyRelu", "Tanh", "Sigmoid", "Swish", "Mish", "Softplus",
		"HardSwish", "Elu", "Neg", "Erf"} {
		rules = append(rules, &Rule{
			Name: "transpose-" + op, Doc: "an elementwise operator commutes with a transpose",
			Pattern: Op(op, Op("Transpose", Var("x")).As("t").Shared()),
			Make: func(b *ir.Builder, m *Match) []*ir.Value {
				y := b.Op("", op, []*ir.Value{m.Val("x")}, m.Root.Attrs...)
				return []*ir.Value{b.Op("", "Transpose", []*ir.Value{y}, m.Node("t").Attrs...)}
			},
		})
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div"} {
		turned := func(name, node string) *OpPattern { return Op("Transpose", Var(name)).As(node).Shared() }
		rules = append(rules, &Rule{
			Name: "transpose-" + op, Doc: "two equal transposes before an elementwise operator become one after it",
			Pattern: Op(op, turned("x", "t"), turned("y", "u")),
			Check: func(m *Match) string {
				if !slices.Equal(ops.Permutation(m.Node("t")), ops.Permutation(m.Node("u"))) {
					return passes.Leave
				}
				return ""
			},
			Make: func(b *ir.Builder, m *Match) []*ir.Value {
				in := []*ir.Value{m.Val("x"), m.Val("y")}
				if m.Root.In(0) != m.Node("t").Outputs[0] {
					slices.Reverse(in)
				}
				return []*ir.Value{b.Op("", "Transpose", []*ir.Value{b.Op("", op, in)}, m.Node("t").Attrs...)}
			},
		})
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div"} {
		for _, first := range []bool{true, false} {
			in := []Pattern{Op("Transpose", Var("x")).As("t").Shared(), Fixed("k")}
			if !first {
				slices.Reverse(in)
			}
			rules = append(rules, &Rule{
				Name:    "transpose-" + op + "-constant",
				Doc:     "a constant beside a transpose is transposed by the inverse order",
				Pattern: Op(op, in...),
				Check: func(m *Match) string {
					x, k := m.Val("x"), m.Val("k")
					if t, ok := k.TensorType(); m.IsFixed(x) || !ok || t.NoRank || len(t.Shape) > len(x.Shape()) {
						return passes.Leave // two constants would alternate forever; folding handles them
					}
					return ""
				},
				Make: func(b *ir.Builder, m *Match) []*ir.Value {
					in := []*ir.Value{m.Val("x"), turnedBack(b, m.Val("k"), ops.Permutation(m.Node("t")))}
					if m.Root.In(0) == m.Val("k") {
						slices.Reverse(in)
					}
					return []*ir.Value{b.Op("", "Transpose", []*ir.Value{b.Op("", op, in)}, m.Node("t").Attrs...)}
				},
			})
		}
	}
	return NewSet(rules...)
})

// turnedBack returns a constant or settled value as an operand for the value before a transpose of the given order.
func turnedBack(b *ir.Builder, k *ir.Value, perm []int64) *ir.Value {
	if k.Const == nil {
		if n, known := k.Shape().Size().Known(); known && n == 1 {
			return k
		}
		if missing := len(perm) - len(k.Shape()); missing > 0 {
			axes := make([]int64, missing)
			for i := range axes {
				axes[i] = int64(i)
			}
			k = b.Op("", "Unsqueeze", []*ir.Value{k, b.Ints(axes...)})
		}
		return b.Op("", "Transpose", []*ir.Value{k}, ir.A("perm", regions.InverseOrder(perm)))
	}
	if k.Const.Len() == 1 {
		return k
	}
	shape := append(slices.Repeat([]int{1}, len(perm)-k.Const.Rank()), k.Const.Shape()...)
	t, err := k.Const.Reshape(shape...)
	if err != nil {
		b.Fail(err)
		return nil
	}
	return b.Op("", "Transpose", []*ir.Value{b.Const(k.Name, t)}, ir.A("perm", regions.InverseOrder(perm)))
}

// timeFacts returns the facts along time of the sequences that state-space layers compute.
func timeFacts(g *ir.Graph) map[*ir.Value]ir.Fact {
	seed := map[*ir.Value]ir.Fact{}
	for _, n := range g.Nodes {
		if isStateSpace(n) {
			seed[n.Outputs[0]] = ir.Fact{Symbol: "t", Axis: 1, Stride: 1}
		}
	}
	return ops.Propagate(g, seed)
}

// pickRules returns the rules that replace reductions of a sequence (B, L, H) to one vector.
func pickRules(facts map[*ir.Value]ir.Fact) *Set {
	isSequence := func(v *ir.Value) bool {
		f := facts[v]
		return v.Const == nil && len(v.Shape()) == 3 && v.Elem().IsFloat() && f.Symbol != "" && f.Axis == 1 && !f.Global
	}
	var rules []*Rule
	straight, turned := Where("x", isSequence), Op("Transpose", Where("x", isSequence)).As("turn").Shared()
	pick := func(mode string) func(b *ir.Builder, m *Match) []*ir.Value {
		return func(b *ir.Builder, m *Match) []*ir.Value {
			return []*ir.Value{b.Op("essm", "Pick", []*ir.Value{m.Val("x")}, ir.A("mode", mode))}
		}
	}
	// timeIs checks that an axis is time, and that features remain the last axis.
	timeIs := func(m *Match, axis int64) bool {
		a, err := ops.Axis(axis, 3)
		if err != nil {
			return false
		}
		perm := []int64{0, 1, 2}
		if t := m.Node("turn"); t != nil {
			perm = ops.Permutation(t)
		}
		rest := slices.Delete(slices.Clone(perm), a, a+1)
		return perm[a] == 1 && slices.IsSorted(rest)
	}
	for _, x := range []Pattern{straight, turned} {
		rules = append(rules, &Rule{
			Name: "mean-over-time", Doc: "ReduceMean over time is Pick",
			Pattern: Op("ReduceMean", x, Const("axes")),
			Check: func(m *Match) string {
				axes, ok := ops.ConstInts(m.Val("axes"))
				if !ok || len(axes) != 1 || m.Root.Attrs.Bool("keepdims", true) || !timeIs(m, axes[0]) {
					return passes.Leave
				}
				return ""
			},
			Make: pick("pool"),
		})
		for _, mode := range []string{"first", "last"} {
			at := int64(0)
			if mode == "last" {
				at = -1
			}
			rules = append(rules, &Rule{
				Name: mode + "-step", Doc: "Gather of the " + mode + " step is Pick",
				Pattern: Op("Gather", x, Const("index")),
				Check: func(m *Match) string {
					i, ok := ops.ConstInts(m.Val("index"))
					if !ok || len(i) != 1 || m.Val("index").Const.Rank() != 0 || i[0] != at ||
						!timeIs(m, m.Root.Attrs.Int("axis", 0)) {
						return passes.Leave
					}
					return ""
				},
				Make: pick(mode),
			})
		}
	}
	return NewSet(rules...)
}
