package std

import (
	"errors"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var errDivideByZero = errors.New("integer division by zero")

// arith is a binary operation on floats, on signed integers, and on uint64 if that differs.
type arith struct {
	f func(a, b float64) float64
	i func(a, b int64) int64
	u func(a, b uint64) uint64
	// divides reports whether an integer second operand of 0 is an error.
	divides bool
}

// operands returns two inputs of one element type with the shape of the result, to which they broadcast.
func operands(in []tensor.Datum) (a, b *tensor.Tensor, shape []int, err error) {
	if a, err = need(in, 0, "A"); err != nil {
		return
	}
	if b, err = need(in, 1, "B"); err != nil {
		return
	}
	shape, err = ops.Broadcast(a.Shape(), b.Shape())
	return
}

func (o arith) apply(c *ir.EvalCtx, a, b *tensor.Tensor, shape []int) (*tensor.Tensor, error) {
	if err := sameElem(a, b); err != nil {
		return nil, err
	}
	if a.DType().IsInt() {
		x, err := ops.Int64s(c, a)
		if err != nil {
			return nil, err
		}
		y, err := ops.Int64s(c, b)
		if err != nil {
			return nil, err
		}
		if o.divides {
			for _, v := range ops.All(c, y) {
				if v == 0 {
					return nil, errDivideByZero
				}
			}
		}
		x, y = ops.BroadcastTo(c, x, a.Shape(), shape), ops.BroadcastTo(c, y, b.Shape(), shape)
		unsigned := a.DType() == tensor.Uint64 && o.u != nil
		for i := range ops.Each(c, len(x)) {
			if unsigned {
				x[i] = int64(o.u(uint64(x[i]), uint64(y[i])))
			} else {
				x[i] = o.i(x[i], y[i])
			}
		}
		return fromInts(c, a.DType(), x, shape...)
	}
	x, err := ops.Float64s(c, a)
	if err != nil {
		return nil, err
	}
	y, err := ops.Float64s(c, b)
	if err != nil {
		return nil, err
	}
	x, y = ops.BroadcastTo(c, x, a.Shape(), shape), ops.BroadcastTo(c, y, b.Shape(), shape)
	for i := range ops.Each(c, len(x)) {
		x[i] = o.f(x[i], y[i])
	}
	return ops.Real(c, a.DType(), x, shape...)
}

// evaluation is the type of ir.Op.Eval.
type evaluation = func(*ir.EvalCtx, []tensor.Datum) ([]tensor.Datum, error)

// evalArith evaluates integers by o, and floats by the operator's expression.
func evalArith(o arith) evaluation {
	return func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		if t := ops.Tensor(in, 0); t != nil && !t.DType().IsInt() {
			return ops.EvalElement(c, in)
		}
		a, b, shape, err := operands(in)
		if err != nil {
			return nil, err
		}
		return ops.One(o.apply(c, a, b, shape))
	}
}

type scalarBinary = func(a, b scalar.Expr) scalar.Expr

func binary(name string, since int, doc string, f scalarBinary, o arith) *ir.Op {
	return ops.Register(&ir.Op{
		Name: name, Since: since, Doc: doc,
		In: ops.Sig("A:T", "B:T"), Out: ops.Sig("C:T"), Elems: elems("T", ops.Numbers),
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return f(x[0], x[1]) },
		Eval:    evalArith(o), Tol: ir.Rounding,
		Commutative: name == "Add" || name == "Mul",
	})
}

// Arithmetic with broadcasting. Integers wrap around.
var (
	Add = binary("Add", 14, "A+B with broadcasting.", scalar.Add, arith{i: func(a, b int64) int64 { return a + b }})
	Sub = binary("Sub", 14, "A-B with broadcasting.", scalar.Sub, arith{i: func(a, b int64) int64 { return a - b }})
	Mul = binary("Mul", 14, "A*B with broadcasting.", scalar.Mul, arith{i: func(a, b int64) int64 { return a * b }})
	Div = binary("Div", 14,
		"A/B with broadcasting. Integers are truncated towards zero, and an integer B of 0 is an error.",
		scalar.Div, arith{divides: true,
			i: func(a, b int64) int64 { return a / b }, u: func(a, b uint64) uint64 { return a / b }})
)

// Mod is the remainder of a division. The attribute fmod selects its sign.
var Mod = ops.Register(&ir.Op{
	Name: "Mod", Since: 13,
	Doc:   "Remainder of A/B with broadcasting: with the sign of B (fmod=0, integers), or with the sign of A (fmod=1).",
	In:    ops.Sig("A:T", "B:T"),
	Out:   ops.Sig("C:T"),
	Elems: elems("T", ops.Numbers),
	Attrs: []ir.AttrSpec{intAttr("fmod", 0, "1: the sign follows A, as in C; needed for floats")},
	Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
		if getInt(n, "fmod") == 0 {
			return scalar.FloorMod(x[0], x[1])
		}
		return scalar.Mod(x[0], x[1])
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		o := arith{divides: true,
			i: func(a, b int64) int64 { return a % b }, u: func(a, b uint64) uint64 { return a % b }}
		if getInt(c.Node, "fmod") == 0 {
			o.i = func(a, b int64) int64 {
				r := a % b
				if r != 0 && (r < 0) != (b < 0) {
					r += b
				}
				return r
			}
		}
		return evalArith(o)(c, in)
	},
	Tol: ir.Exact,
})

// Pow raises to a power. The exponent may have another element type.
var Pow = ops.Register(&ir.Op{
	Name: "Pow", Since: 15, Doc: "X to the power of Y with broadcasting, in X's element type.",
	In: ops.Sig("X:T", "Y:T1"), Out: ops.Sig("Z:T"),
	Elems: map[string][]tensor.DType{
		"T":  append([]tensor.DType{tensor.Int32, tensor.Int64}, ops.Floats...),
		"T1": ops.Numbers,
	},
	Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Pow(x[0], x[1]) },
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		whole := func(t *tensor.Tensor) bool { return t != nil && t.DType().IsInt() }
		if !whole(ops.Tensor(in, 0)) || !whole(ops.Tensor(in, 1)) {
			return ops.EvalElement(c, in)
		}
		a, b, shape, err := operands(in)
		if err != nil {
			return nil, err
		}
		wideB, err := ops.Convert(c, b, a.DType(), false)
		if err != nil {
			return nil, err
		}
		return ops.One(arith{i: intPow}.apply(c, a, wideB, shape))
	},
	GradientBody: bodyPow,
	Tol:          ir.Rounding,
})

// intPow wraps around on overflow. Negative exponents truncate towards zero.
func intPow(x, y int64) int64 {
	if y < 0 {
		switch x {
		case 1:
			return 1
		case -1:
			return 1 - 2*(y&1)
		}
		return 0
	}
	r := int64(1)
	for ; y > 0; y >>= 1 {
		if y&1 == 1 {
			r *= x
		}
		x *= x
	}
	return r
}

// variadic registers an operator that combines one or more inputs by f, from the first to the last, with broadcasting.
// last, which may be nil, is applied to the result for n inputs. eval evaluates integers; it may be nil.
func variadic(name string, since int, doc string, types []tensor.DType, f scalarBinary,
	last func(x scalar.Expr, n int) scalar.Expr, eval evaluation, tol ir.Tolerance) *ir.Op {
	if last == nil {
		last = func(x scalar.Expr, _ int) scalar.Expr { return x }
	}
	fold := folded(f)
	op := &ir.Op{
		Name: name, Since: since, Doc: doc,
		In:    []ir.Param{{Name: "data_0", Elem: "T", Variadic: true}},
		Out:   ops.Sig(strings.ToLower(name) + ":T"),
		Elems: elems("T", types),
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr {
			if len(x) > ops.MostFolded {
				return scalar.Expr{}
			}
			return last(fold(x), len(x))
		},
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			if t := ops.Tensor(in, 0); eval != nil && t != nil && t.DType().IsInt() {
				return eval(c, in)
			}
			if len(in) > ops.MostFolded {
				return ops.EvalFold(c, in, fold, func(x scalar.Expr) scalar.Expr { return last(x, len(in)) })
			}
			return ops.EvalElement(c, in)
		},
		Tol: tol,
	}
	if name == "Sum" || name == "Mean" { // also of more operands than an expression has
		op.Linear = ops.LinearAll
	}
	return ops.Register(op)
}

// folded applies f to the operands from the first to the last.
func folded(f scalarBinary) func([]scalar.Expr) scalar.Expr {
	return func(x []scalar.Expr) scalar.Expr {
		e := x[0]
		for _, a := range x[1:] {
			e = f(e, a)
		}
		return e
	}
}

// evalFold evaluates integers by o.
func evalFold(o arith) evaluation {
	return func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		acc, err := need(in, 0, "data_0")
		if err != nil {
			return nil, err
		}
		for i := 1; i < len(in); i++ {
			t, err := need(in, i, "data")
			if err != nil {
				return nil, err
			}
			shape, err := ops.Broadcast(acc.Shape(), t.Shape())
			if err != nil {
				return nil, err
			}
			if acc, err = o.apply(c, acc, t, shape); err != nil {
				return nil, err
			}
		}
		return []tensor.Datum{acc}, nil
	}
}

// Operators on any number of inputs.
var (
	Min = variadic("Min", 13, "Elementwise minimum of all inputs with broadcasting.", ops.Numbers,
		scalar.Min, nil, evalFold(arith{
			i: func(a, b int64) int64 { return min(a, b) }, u: func(a, b uint64) uint64 { return min(a, b) }}),
		ir.Exact)
	Max = variadic("Max", 13, "Elementwise maximum of all inputs with broadcasting.", ops.Numbers,
		scalar.Max, nil, evalFold(arith{
			i: func(a, b int64) int64 { return max(a, b) }, u: func(a, b uint64) uint64 { return max(a, b) }}),
		ir.Exact)
	Sum = variadic("Sum", 13, "Elementwise sum of all inputs with broadcasting.", ops.Floats,
		scalar.Add, nil, nil, ir.Rounding)
	Mean = variadic("Mean", 13, "Elementwise mean of all inputs with broadcasting.", ops.Floats,
		scalar.Add, func(x scalar.Expr, n int) scalar.Expr { return scalar.Div(x, scalar.Const(float64(n))) }, nil,
		ir.Rounding)
)
