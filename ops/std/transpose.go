package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Transpose reorders axes.
var Transpose = ops.Register(&ir.Op{
	Name: "Transpose", Since: 24,
	Doc: "data with its axes reordered: axis i of the output is axis perm[i] of data; without perm they are reversed.",
	In:  ops.Sig("data:T"), Out: ops.Sig("transposed:T"), Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intsAttr("perm", "axes of data in the order of the output")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		perm, err := permOf(n, len(in))
		if err != nil {
			return nil, err
		}
		out := make(ir.Shape, len(in))
		for i, p := range perm {
			out[i] = in[p]
		}
		return out, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		perm, err := permOf(c.Node, x.Rank())
		if err != nil {
			return nil, err
		}
		shape, strides := make([]int, len(perm)), make([]int, len(perm))
		from := ops.Strides(x.Shape())
		for i, p := range perm {
			shape[i], strides[i] = x.Dim(p), from[p]
		}
		out, err := alloc(c, x.DType(), shape)
		if err != nil {
			return nil, err
		}
		m, i := newMover(c, out, x), 0
		ops.Walk(c, shape, strides, 0, func(o int) {
			m.copy(i, o, 1)
			i++
		})
		return ops.One(out, nil)
	},
	Along: alongMove(func(n *ir.Node, axis int) int {
		perm, err := permOf(n, len(n.In(0).Shape()))
		if err != nil {
			return -1
		}
		return slices.Index(perm, axis)
	}),
	Moves: func(n *ir.Node) (pieces []ir.Piece, ok bool) {
		perm, err := permOf(n, len(n.In(0).Shape()))
		return []ir.Piece{{Axes: perm, From: make([]int, len(perm))}}, err == nil
	},
	Linear: ops.LinearFirst,
	Tol:    ir.Exact,
})

func permOf(n *ir.Node, rank int) ([]int, error) {
	given := n.Attrs.Ints("perm", nil)
	perm := make([]int, rank)
	if given == nil {
		for i := range perm {
			perm[i] = rank - 1 - i
		}
		return perm, nil
	}
	if len(given) != rank {
		return nil, fmt.Errorf("perm %v has %d axes, data has %d", given, len(given), rank)
	}
	if _, err := ops.AxesOf(given, rank); err != nil {
		return nil, fmt.Errorf("perm: %w", err)
	}
	for i, p := range given {
		perm[i], _ = ops.Axis(p, rank)
	}
	return perm, nil
}
