package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// unary makes an operator that computes each element of a float tensor by itself.
func unary(name string, since int, doc string, f func(float64) float64) *ir.Op {
	return ops.Register(unaryOp(name, since, doc, func(*ir.Node) func(float64) float64 { return f }))
}

// math1 is unary for the operators whose input and output ONNX names so.
func math1(name string, since int, doc string, f func(float64) float64) *ir.Op {
	return ops.Register(ioNames(unaryOp(name, since, doc, func(*ir.Node) func(float64) float64 { return f })))
}

func ioNames(o *ir.Op) *ir.Op {
	o.In[0].Name, o.Out[0].Name = "input", "output"
	return o
}

func unaryOp(name string, since int, doc string, f func(n *ir.Node) func(float64) float64, attrs ...ir.AttrSpec) *ir.Op {
	return &ir.Op{
		Name: name, Since: since, Doc: doc,
		In: ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Attrs: attrs,
		Eval:  func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) { return mapReal(c, in, f(c.Node)) },
		Along: ops.AlongElementwise, Tol: ir.Rounding,
	}
}

func mapReal(c *ir.EvalCtx, in []tensor.Datum, f func(float64) float64) ([]tensor.Datum, error) {
	t, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	v, err := t.Float64s()
	if err != nil {
		return nil, err
	}
	for i, x := range v {
		v[i] = f(x)
	}
	return ops.One(ops.Real(c, t.DType(), v, t.Shape()...))
}

// unaryExact makes an operator whose result needs no rounding, over integers too.
func unaryExact(name string, since int, doc string, types []tensor.DType, f func(float64) float64, g func(int64) int64) *ir.Op {
	o := &ir.Op{
		Name: name, Since: since, Doc: doc,
		In: ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", types),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			t, err := need(in, 0, "X")
			if err != nil {
				return nil, err
			}
			if !t.DType().IsInt() {
				return mapReal(c, in, f)
			}
			v, err := t.Int64s()
			if err != nil {
				return nil, err
			}
			unsigned := t.DType() == tensor.Uint64
			for i, x := range v {
				if !unsigned {
					v[i] = g(x)
				} else if name == "Sign" && x != 0 {
					v[i] = 1
				}
			}
			return ops.One(fromInts(t.DType(), v, t.Shape()...))
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
	Exp        = math1("Exp", 13, "e to the power of each element.", math.Exp)
	Log        = math1("Log", 13, "Natural logarithm of each element.", math.Log)
	Sqrt       = unary("Sqrt", 13, "Square root of each element; NaN below zero.", math.Sqrt)
	Reciprocal = unary("Reciprocal", 13, "1/x for each element.", func(x float64) float64 { return 1 / x })
	Sin        = math1("Sin", 22, "Sine of each element, in radians.", math.Sin)
	Cos        = math1("Cos", 22, "Cosine of each element, in radians.", math.Cos)
	Tan        = math1("Tan", 22, "Tangent of each element, in radians.", math.Tan)
	Asin       = math1("Asin", 22, "Arcsine of each element.", math.Asin)
	Acos       = math1("Acos", 22, "Arccosine of each element.", math.Acos)
	Atan       = math1("Atan", 22, "Arctangent of each element.", math.Atan)
	Sinh       = math1("Sinh", 22, "Hyperbolic sine of each element.", math.Sinh)
	Cosh       = math1("Cosh", 22, "Hyperbolic cosine of each element.", math.Cosh)
	Asinh      = math1("Asinh", 22, "Inverse hyperbolic sine of each element.", math.Asinh)
	Acosh      = math1("Acosh", 22, "Inverse hyperbolic cosine of each element.", math.Acosh)
	Atanh      = math1("Atanh", 22, "Inverse hyperbolic tangent of each element.", math.Atanh)
	Tanh       = math1("Tanh", 13, "Hyperbolic tangent of each element.", math.Tanh)
	Erf        = ops.Register(floatsOrInts(ioNames(unaryOp("Erf", 13, "Error function of each element.", func(*ir.Node) func(float64) float64 { return math.Erf }))))

	Floor = exactReal("Floor", 13, "Greatest whole number not above each element.", math.Floor)
	Ceil  = exactReal("Ceil", 13, "Least whole number not below each element.", math.Ceil)
	Round = exactReal("Round", 22, "Nearest whole number to each element, halves to even.", math.RoundToEven)

	Abs  = unaryExact("Abs", 13, "Absolute value of each element.", ops.Numbers, math.Abs, func(x int64) int64 { return max(x, -x) })
	Neg  = unaryExact("Neg", 13, "Negative of each element.", signedTypes, func(x float64) float64 { return -x }, func(x int64) int64 { return -x })
	Sign = unaryExact("Sign", 13, "-1, 0 or 1 as each element is below, at or above zero.", ops.Numbers, signOf, func(x int64) int64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0
	})
)

func floatsOrInts(o *ir.Op) *ir.Op {
	o.Elems = elems("T", ops.Numbers)
	return o
}

func exactReal(name string, since int, doc string, f func(float64) float64) *ir.Op {
	o := unaryOp(name, since, doc, func(*ir.Node) func(float64) float64 { return f })
	o.Tol = ir.Exact
	return ops.Register(o)
}

func signOf(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x // zero, or NaN
}

// predicate makes an operator that tests each element of a float tensor.
func predicate(name string, since int, doc string, types []tensor.DType, test func(n *ir.Node) func(float64) bool, attrs ...ir.AttrSpec) *ir.Op {
	return ops.Register(&ir.Op{
		Name: name, Since: since, Doc: doc,
		In: ops.Sig("X:T1[...]"), Out: ops.Sig("Y:bool[...]"), Elems: elems("T1", types), Attrs: attrs,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			v, t := ops.F64(in, 0), ops.Tensor(in, 0)
			if t == nil || v == nil {
				return nil, fmt.Errorf("%s needs a real tensor", name)
			}
			f, out := test(c.Node), make([]bool, len(v))
			for i, x := range v {
				out[i] = f(x)
			}
			return ops.One(tensor.FromSlice(out, t.Shape()...), nil)
		},
		Along: ops.AlongElementwise, Tol: ir.Exact,
	})
}

// Tests of elements.
var (
	Not = predicate("Not", 1, "Logical negation of each element.", boolOnly,
		func(*ir.Node) func(float64) bool { return func(x float64) bool { return x == 0 } })
	IsNaN = predicate("IsNaN", 20, "Whether each element is not a number.", allFloats(),
		func(*ir.Node) func(float64) bool { return math.IsNaN })
	IsInf = predicate("IsInf", 20, "Whether each element is infinite.", allFloats(),
		func(n *ir.Node) func(float64) bool {
			pos, neg := getInt(n, "detect_positive") != 0, getInt(n, "detect_negative") != 0
			return func(x float64) bool { return pos && math.IsInf(x, 1) || neg && math.IsInf(x, -1) }
		},
		intAttr("detect_negative", 1, "whether -Inf counts"), intAttr("detect_positive", 1, "whether +Inf counts"))
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
