package std

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// gradResize is the Gradient of Resize. Along one axis, Resize is a product with a matrix: what it makes of the unit
// vectors. The gradient is multiplied by the transposed matrix of each axis.
func gradResize(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x, g := n.In(0), dOut[0]
	axes, err := resizeAxes(n, len(x.Shape()))
	if err != nil || len(x.Shape()) == 0 {
		b.Fail(&ops.NoGradientError{Why: "the rank of X is not known"})
		return nil
	}
	if !ops.Newest(n.Op) || getStr(n, "keep_aspect_ratio_policy") != "stretch" {
		b.Fail(&ops.NoGradientError{Why: "its aspect ratio is kept, or it is of an earlier version"})
		return nil
	}
	crop := getStr(n, "coordinate_transformation_mode") == "tf_crop_and_resize"
	if roi := n.In(1); crop && roi != nil && roi.Const == nil {
		b.Fail(&ops.NoGradientError{Why: "roi is not a constant, and not differentiated"})
		return nil
	}
	for i, a := range axes {
		if !crop && x.Shape()[a].Equal(n.Out(0).Shape()[a]) {
			continue
		}
		g = alongLast(b, g, a, func(g *ir.Value) *ir.Value {
			return op(b, "MatMul", g, swapped(b, resizeMatrix(b, n, i, len(axes), a)))
		})
	}
	return []*ir.Value{g}
}

// resizeMatrix returns the matrix of the i-th of k axes: a row for each element of the input.
func resizeMatrix(b *ir.Builder, n *ir.Node, i, k, axis int) *ir.Value {
	x := n.In(0)
	size := op(b, "Slice", ops.ShapeOf(b, x), b.Ints(int64(axis)), b.Ints(int64(axis+1)))
	square := attr(b, "Concat", []*ir.Value{size, size}, ir.A("axis", 0))
	in := []*ir.Value{op(b, "EyeLike", op(b, "Expand", ops.ScalarLike(b, 0, x), square))}
	part := func(v *ir.Value, at int) *ir.Value { return op(b, "Slice", v, b.Ints(int64(at)), b.Ints(int64(at+1))) }
	for j := 1; j < len(n.Inputs); j++ {
		v := n.In(j)
		if v == nil || len(v.Shape()) == 1 && v.Shape()[0].Equal(ir.Const(0)) {
			in = append(in, nil)
		} else if j == 1 { // all starts, then all ends
			in = append(in, attr(b, "Concat", []*ir.Value{part(v, i), part(v, k+i)}, ir.A("axis", 0)))
		} else {
			in = append(in, part(v, i))
		}
	}
	attrs := slices.DeleteFunc(slices.Clone(n.Attrs), func(a ir.Attr) bool {
		return a.Name == "axes" ||
			a.Name == "extrapolation_value"
	})
	return attr(b, "Resize", in, append(attrs, ir.A("axes", []int64{1}))...)
}

// alongLast applies f to g with an axis in the last place.
func alongLast(b *ir.Builder, g *ir.Value, axis int, f func(*ir.Value) *ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	rank := len(g.Shape())
	if axis == rank-1 {
		return f(g)
	}
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[axis], perm[rank-1] = perm[rank-1], perm[axis]
	turn := func(v *ir.Value) *ir.Value { return attr(b, "Transpose", []*ir.Value{v}, ir.A("perm", perm)) }
	return turn(f(turn(g)))
}
