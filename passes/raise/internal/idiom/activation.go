// Package idiom recognizes what exporters write for single operators by its pattern: activations, norms, linear layers,
// sequences that are turned around, and operators on quantized tensors.
//
// It imports ir, the operator packages, passes, passes/match, and package regions. Patterns may differ in the order of
// commutative operands and in reshapes, but not in numbers.
package idiom

import (
	"math"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
)

// Activation replaces activations that were written in smaller operators by single operators.
var Activation = &passes.Pass{
	Name: "raise-activation",
	Doc: "GELU (exact and by tanh), SiLU, Mish, softplus and hard swish written in smaller operators → one operator " +
		"each.",
	Run: func(c *passes.Context, g *ir.Graph) (int, error) { return passes.Apply(c, g, activationRules()) },
}

// number matches a constant that equals k up to float32's rounding, and binds it to name.
func number(name string, k float64) Pattern {
	return Where(name, func(v *ir.Value) bool { return isNumber(v, k) })
}

func isNumber(v *ir.Value, k float64) bool {
	x, ok := asScalar(v)
	return ok && math.Abs(x-k) <= 2e-7*math.Abs(k)
}

// asScalar returns the number in a constant of one element.
func asScalar(v *ir.Value) (float64, bool) {
	if v == nil || v.Const == nil || v.Const.Len() != 1 || !v.Elem().IsFloat() {
		return 0, false
	}
	x, err := v.Const.Float64s()
	if err != nil {
		return 0, false
	}
	return x[0], true
}

// unary returns a rule that replaces p by one operator applied to x. The operator's result has the type of x.
func unary(name, doc string, p *OpPattern, op string, attrs ...ir.Attr) *Rule {
	return &Rule{
		Name: name, Doc: doc, Pattern: p,
		Check: func(m *Match) string {
			if x := m.Val("x"); x == nil || x.Const != nil || !ir.EqualTypes(x.Type, m.Root.Outputs[0].Type) {
				return passes.Leave
			}
			return ""
		},
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			return []*ir.Value{b.Op("", op, []*ir.Value{m.Val("x")}, attrs...)}
		},
	}
}

// products returns the patterns that multiply three factors.
func products(a, b, c Pattern) []*OpPattern {
	return []*OpPattern{Op("Mul", Op("Mul", a, b), c), Op("Mul", Op("Mul", a, c), b), Op("Mul", Op("Mul", b, c), a)}
}

var activationRules = sync.OnceValue(func() *Set {
	x, half := Var("x"), number("half", 0.5)
	var rules []*Rule
	add := func(name, doc string, p *OpPattern, op string, attrs ...ir.Attr) {
		rules = append(rules, unary(name, doc, p, op, attrs...))
	}
	// x/2 · (1 + erf(x/√2))
	for _, arg := range []Pattern{Op("Div", x, number("root", math.Sqrt2)),
		Op("Mul", x, number("root", 1/math.Sqrt2))} {
		gate := Op("Add", Op("Erf", arg), number("one", 1))
		for _, p := range products(x, gate, half) {
			add("gelu", "x/2 (1 + erf(x/√2)) is Gelu", p, "Gelu")
		}
		add("gelu", "x/2 (1 + erf(x/√2)) is Gelu", Op("Div", Op("Mul", x, gate), number("two", 2)), "Gelu")
		add("gelu", "x/2 (1 + erf(x/√2)) is Gelu", Op("Mul", Op("Div", x, number("two", 2)), gate), "Gelu")
	}
	// x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))
	k, c := math.Sqrt(2/math.Pi), 0.044715
	square := []Pattern{Op("Mul", x, x), Op("Pow", x, number("two", 2))}
	var inner []Pattern
	for _, sq := range square {
		for _, cube := range append(asPatterns(products(number("c", c), x, sq)),
			asPatterns(products(x, number("c", c), sq))...) {
			inner = append(inner, Op("Mul", Op("Add", x, cube), number("k", k)))
		}
		inner = append(inner, Op("Mul", Op("Mul", x, number("k", k)),
			Op("Add", Op("Mul", sq, number("c", c)), number("one'", 1))))
	}
	inner = append(inner, Op("Mul", Op("Add", x, Op("Mul", Op("Pow", x, number("three", 3)), number("c", c))),
		number("k", k)))
	for _, in := range inner {
		for _, p := range products(x, Op("Add", Op("Tanh", in), number("one", 1)), half) {
			add("gelu-tanh", "x/2 (1 + tanh(√(2/π)(x + 0.044715 x³))) is Gelu by tanh", p, "Gelu",
				ir.A("approximate", "tanh"))
		}
	}
	six, three := number("six", 6), number("three", 3)
	relu6 := Op("Clip", Op("Add", x, three), number("zero", 0), number("top", 6))
	add("swish", "x · sigmoid(x) is Swish", Op("Mul", x, Op("Sigmoid", x)), "Swish")
	add("hard-swish", "x · hard sigmoid is HardSwish", Op("Mul", x, Op("HardSigmoid", x).If(func(n *ir.Node) bool {
		return math.Abs(n.Attrs.Float("alpha", 0.2)-1.0/6) < 1e-6 && n.Attrs.Float("beta", 0.5) == 0.5
	})), "HardSwish")
	add("hard-swish", "x · min(max(x+3, 0), 6)/6 is HardSwish", Op("Div", Op("Mul", x, relu6), six), "HardSwish")
	add("hard-swish", "x · min(max(x+3, 0), 6)/6 is HardSwish", Op("Mul", x, Op("Div", relu6, six)), "HardSwish")
	add("softplus", "log(1 + exp(x)) is Softplus", Op("Log", Op("Add", Op("Exp", x), number("one", 1))), "Softplus")
	add("mish", "x · tanh(softplus(x)) is Mish", Op("Mul", x, Op("Tanh", Op("Softplus", x))), "Mish")
	return NewSet(rules...)
})

func asPatterns(list []*OpPattern) []Pattern {
	out := make([]Pattern, len(list))
	for i, p := range list {
		out[i] = p
	}
	return out
}
