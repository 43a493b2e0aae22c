package essm

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

// The functions of this file are common to gradients (ir.Op.Gradient) of this package.

func std(b *ir.Builder, name string, in ...*ir.Value) *ir.Value { return b.Op("", name, in) }

func stdWith(b *ir.Builder, name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value {
	return b.Op("", name, in, attrs...)
}

// reversed turns time, axis 1, around.
func reversed(b *ir.Builder, x *ir.Value) *ir.Value {
	if x == nil {
		return nil
	}
	return std(b, "Slice", x, b.Ints(-1), b.Ints(math.MinInt64+1), b.Ints(1), b.Ints(-1))
}

// later moves x, of three axes, by steps of time; zeros come in.
func later(b *ir.Builder, x *ir.Value, steps int64) *ir.Value {
	if x == nil {
		return nil
	}
	return ops.PlaceLike(b, x, x, 0, steps, 0)
}

// firstStep returns x at time 0, without the axis of time.
func firstStep(b *ir.Builder, x *ir.Value) *ir.Value {
	return stdWith(b, "Gather", []*ir.Value{x, b.Ints(0)}, ir.A("axis", 1))
}

// sumOver sums over axes, and drops them.
func sumOver(b *ir.Builder, x *ir.Value, axes ...int64) *ir.Value {
	return stdWith(b, "ReduceSum", []*ir.Value{x, b.Ints(axes...)}, ir.A("keepdims", 0))
}

// rowsOf gives x, whose last axis has features, two axes.
func rowsOf(b *ir.Builder, x *ir.Value) *ir.Value {
	return stdWith(b, "Flatten", []*ir.Value{x}, ir.A("axis", -1))
}

// swapped swaps the last two axes.
func swapped(b *ir.Builder, x *ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	perm := make([]int64, len(x.Shape()))
	for i := range perm {
		perm[i] = int64(i)
	}
	k := len(perm)
	perm[k-1], perm[k-2] = perm[k-2], perm[k-1]
	return stdWith(b, "Transpose", []*ir.Value{x}, ir.A("perm", perm))
}

// complexExpr is a complex expression.
type complexExpr struct{ re, im scalar.Expr }

func (a complexExpr) times(c complexExpr) complexExpr {
	return complexExpr{scalar.Sub(scalar.Mul(a.re, c.re), scalar.Mul(a.im, c.im)),
		scalar.Add(scalar.Mul(a.re, c.im), scalar.Mul(a.im, c.re))}
}

func (a complexExpr) scale(k scalar.Expr) complexExpr {
	return complexExpr{scalar.Mul(a.re, k), scalar.Mul(a.im, k)}
}

func (a complexExpr) conj() complexExpr { return complexExpr{a.re, scalar.Neg(a.im)} }

// square is |a|².
func (a complexExpr) square() scalar.Expr {
	return scalar.Add(scalar.Mul(a.re, a.re), scalar.Mul(a.im, a.im))
}

func (a complexExpr) over(c complexExpr) complexExpr {
	return a.times(c.conj()).scale(scalar.Reciprocal(c.square()))
}

func (a complexExpr) plus(k float64) complexExpr {
	return complexExpr{scalar.Add(a.re, scalar.Const(k)), a.im}
}

// expm1Expr is exp(a) - 1, as expm1 computes it.
func expm1Expr(a complexExpr) complexExpr {
	half := scalar.Sin(scalar.Div(a.im, scalar.Const(2)))
	return complexExpr{
		scalar.Sub(scalar.Mul(scalar.Expm1(a.re), scalar.Cos(a.im)), scalar.Mul(scalar.Const(2), scalar.Mul(half,
			half))),
		scalar.Mul(scalar.Exp(a.re), scalar.Sin(a.im))}
}

// phi1Expr is (exp(a)-1)/a, near 0 by its series, so that its derivative has all digits there, too.
func phi1Expr(a complexExpr) complexExpr {
	series := complexExpr{scalar.Const(0), scalar.Const(0)}
	const terms = 14 // 0.25^13/14! is below the rounding of float64
	for k := terms; k >= 1; k-- {
		series = series.times(a).plus(1 / math.Gamma(float64(k)+1))
	}
	quotient := expm1Expr(a).over(a)
	near := scalar.Less(a.square(), scalar.Const(0.0625))
	return complexExpr{scalar.Select(near, series.re, quotient.re), scalar.Select(near, series.im, quotient.im)}
}

// logExpr is the logarithm of a. Its imaginary part is 2·atan(y/(|a|+x)).
func logExpr(a complexExpr) complexExpr {
	abs := scalar.Sqrt(a.square())
	return complexExpr{scalar.Mul(scalar.Const(0.5), scalar.Log(a.square())),
		scalar.Mul(scalar.Const(2), scalar.Atan(scalar.Div(a.im, scalar.Add(abs, a.re))))}
}
