package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// gradDFT is the Gradient of DFT: the transform the other way, by other factors. Half a spectrum counts as a whole one
// with zeros; read by the inverse, all of its elements but the first and the middle one stand for two.
func gradDFT(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x, g := n.In(0), dOut[0]
	rank := len(x.Shape())
	axis, ok, err := constDFTAxis(n, rank)
	parts, known := ir.Unknown, false
	if rank > 0 {
		parts = x.Shape()[rank-1]
		_, known = parts.Known()
	}
	if !ok || err != nil || !known {
		b.Fail(&ops.NoGradientError{Why: "its axis, or the last dimension of its input, is not known"})
		return nil
	}
	inverse, onesided := getInt(n, "inverse") != 0, getInt(n, "onesided") != 0
	at := b.Const("axis", tensor.FromSlice([]int64{int64(axis)}))
	sizeOn := func(v *ir.Value) *ir.Value {
		return op(b, "Slice", ops.ShapeOf(b, v), b.Ints(int64(axis)), b.Ints(int64(axis+1)))
	}
	length := sizeOn(n.Out(0)) // of the transform
	if onesided && !inverse {
		if length = sizeOn(x); n.In(1) != nil {
			length = ops.CastTo(b, op(b, "Reshape", n.In(1), b.Ints(1)), tensor.Int64)
		}
	}
	back := int64(1)
	if inverse {
		back = 0
	}
	scalarLength := op(b, "Squeeze", length)
	spectrum := attr(b, "DFT", []*ir.Value{g, scalarLength, at}, ir.A("inverse", back))
	factor := ops.CastLike(b, scalarLength, x)
	if inverse {
		factor = op(b, "Reciprocal", factor)
	}
	spectrum = op(b, "Mul", spectrum, factor)
	if n, _ := parts.Known(); n == 1 { // the input is real
		spectrum = op(b, "Slice", spectrum, b.Ints(0), b.Ints(1), b.Ints(-1))
	}
	dx := ops.PlaceLike(b, spectrum, x, make([]int64, rank)...)
	if inverse && onesided && b.Err() == nil {
		one, zero := b.Const("one", tensor.Scalar(int64(1))), b.Const("zero", tensor.Scalar(int64(0)))
		k := op(b, "Range", zero, op(b, "Squeeze", sizeOn(x)), one)
		double := op(b, "Add", k, k)
		twice := op(b, "And", op(b, "Less", zero, k), op(b, "Less", double, scalarLength))
		count := op(b, "Where", twice, ops.ScalarLike(b, 2, x), ops.ScalarLike(b, 1, x))
		count = op(b, "Where", op(b, "Greater", double, scalarLength), ops.ScalarLike(b, 0, x), count) // not read
		axes := make([]int64, rank-1-axis)
		for i := range axes {
			axes[i] = int64(i + 1)
		}
		dx = op(b, "Mul", dx, op(b, "Unsqueeze", count, b.Ints(axes...)))
	}
	return []*ir.Value{dx}
}
