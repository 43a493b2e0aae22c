package std

import (
	"cmp"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

type unaryElement = func(x scalar.Expr) scalar.Expr

// unary registers an elementwise operator on floats.
func unary(name string, since int, doc string, f unaryElement) *ir.Op {
	return ops.Register(unaryOp(name, since, doc, fixed(f)))
}

// math1 is unary for operators whose input and output are named input and output.
func math1(name string, since int, doc string, f unaryElement) *ir.Op {
	return ops.Register(ioNames(unaryOp(name, since, doc, fixed(f))))
}

func ioNames(o *ir.Op) *ir.Op {
	o.In[0].Name, o.Out[0].Name = "input", "output"
	return o
}

// fixed returns an expression that does not depend on attributes.
func fixed(f unaryElement) func(*ir.Node, []scalar.Expr) scalar.Expr {
	return func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return f(x[0]) }
}

func unaryOp(name string, since int, doc string, f element, attrs ...ir.AttrSpec) *ir.Op {
	return &ir.Op{
		Name: name, Since: since, Doc: doc,
		In: ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Attrs: attrs,
		Element: f, Tol: ir.Rounding,
	}
}

// unaryExact registers an operator whose result needs no rounding. g computes it for integers.
func unaryExact(name string, since int, doc string, types []tensor.DType, f unaryElement, g func(int64) int64) *ir.Op {
	o := &ir.Op{
		Name: name, Since: since, Doc: doc,
		In: ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", types),
		Element: fixed(f),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			t, err := need(in, 0, "X")
			if err != nil {
				return nil, err
			}
			if !t.DType().IsInt() {
				return ops.EvalElement(c, in)
			}
			v, err := ops.Int64s(c, t)
			if err != nil {
				return nil, err
			}
			unsigned := t.DType() == tensor.Uint64
			for i, x := range ops.All(c, v) {
				if !unsigned {
					v[i] = g(x)
				} else if name == "Sign" && x != 0 {
					v[i] = 1
				}
			}
			return ops.One(fromInts(c, t.DType(), v, t.Shape()...))
		},
		Along: ops.AlongElementwise, Tol: ir.Exact,
	}
	if name == "Sign" {
		ioNames(o)
	}
	return ops.Register(o)
}

// Elementwise mathematics.
var (
	Exp        = math1("Exp", 13, "e to the power of each element.", scalar.Exp)
	Log        = math1("Log", 13, "Natural logarithm of each element.", scalar.Log)
	Sqrt       = unary("Sqrt", 13, "Square root of each element; NaN below zero.", scalar.Sqrt)
	Reciprocal = unary("Reciprocal", 13, "1/x for each element.", scalar.Reciprocal)
	Sin        = math1("Sin", 22, "Sine of each element, in radians.", scalar.Sin)
	Cos        = math1("Cos", 22, "Cosine of each element, in radians.", scalar.Cos)
	Tan        = math1("Tan", 22, "Tangent of each element, in radians.", scalar.Tan)
	Asin       = math1("Asin", 22, "Arcsine of each element.", scalar.Asin)
	Acos       = math1("Acos", 22, "Arccosine of each element.", scalar.Acos)
	Atan       = math1("Atan", 22, "Arctangent of each element.", scalar.Atan)
	Sinh       = math1("Sinh", 22, "Hyperbolic sine of each element.", scalar.Sinh)
	Cosh       = math1("Cosh", 22, "Hyperbolic cosine of each element.", scalar.Cosh)
	Asinh      = math1("Asinh", 22, "Inverse hyperbolic sine of each element.", scalar.Asinh)
	Acosh      = math1("Acosh", 22, "Inverse hyperbolic cosine of each element.", scalar.Acosh)
	Atanh      = math1("Atanh", 22, "Inverse hyperbolic tangent of each element.", scalar.Atanh)
	Tanh       = math1("Tanh", 13, "Hyperbolic tangent of each element.", scalar.Tanh)
	Erf        = erf()

	Floor = exactReal("Floor", 13, "Largest integer not above each element.", scalar.Floor)
	Ceil  = exactReal("Ceil", 13, "Smallest integer not below each element.", scalar.Ceil)
	Round = exactReal("Round", 22, "Nearest integer to each element, halves to even.", scalar.Round)

	Abs = unaryExact("Abs", 13, "Absolute value of each element.", ops.Numbers,
		scalar.Abs, func(x int64) int64 { return max(x, -x) })
	Neg = unaryExact("Neg", 13, "Negative of each element.", signedTypes,
		scalar.Neg, func(x int64) int64 { return -x })
	Sign = unaryExact("Sign", 13, "-1, 0 or 1 for elements below, at or above zero.", ops.Numbers,
		scalar.Sign, func(x int64) int64 { return int64(cmp.Compare(x, 0)) })
)

// erf registers Erf, which also accepts integers and truncates its results for them.
func erf() *ir.Op {
	o := ioNames(unaryOp("Erf", 13, "Error function of each element.", fixed(scalar.Erf)))
	o.Elems = elems("T", ops.Numbers)
	return ops.Register(o)
}

func exactReal(name string, since int, doc string, f unaryElement) *ir.Op {
	o := unaryOp(name, since, doc, fixed(f))
	o.Tol = ir.Exact
	return ops.Register(o)
}

// predicate registers an operator that tests each element of a float tensor.
func predicate(name string, doc string, test element, attrs ...ir.AttrSpec) *ir.Op {
	return ops.Register(&ir.Op{
		Name: name, Since: 20, Doc: doc,
		In: ops.Sig("X:T1[...]"), Out: ops.Sig("Y:bool[...]"), Elems: elems("T1", allFloats()), Attrs: attrs,
		Element: test, Tol: ir.Exact,
	})
}

// Tests of elements.
var (
	IsNaN = predicate("IsNaN", "Whether each element is not a number.", fixed(scalar.IsNaN))
	IsInf = predicate("IsInf", "Whether each element is infinite.", func(n *ir.Node, x []scalar.Expr) scalar.Expr {
		is := func(attr string, sign int) scalar.Expr {
			if getInt(n, attr) == 0 {
				return scalar.Const(0)
			}
			return scalar.IsInf(x[0], sign)
		}
		return scalar.Or(is("detect_positive", 1), is("detect_negative", -1))
	}, intAttr("detect_negative", 1, "whether -Inf counts"), intAttr("detect_positive", 1, "whether +Inf counts"))
)

func allFloats() []tensor.DType {
	var out []tensor.DType
	for _, d := range ops.Any {
		if d.IsFloat() {
			out = append(out, d)
		}
	}
	return out
}
