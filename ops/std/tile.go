package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Tile repeats a tensor.
var Tile = ops.Register(&ir.Op{
	Name: "Tile", Since: 13, Doc: "input repeated along each axis by the number in repeats.",
	In: ops.Sig("input:T", "repeats:int64[_]"), Out: ops.Sig("output:T"), Elems: elems("T", ops.Any),
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		r, ok := ops.DimsOf(n.In(1))
		if !ok {
			return unknownShape(len(in)), nil
		}
		if len(r) != len(in) {
			return nil, fmt.Errorf("repeats has %d numbers, input has rank %d", len(r), len(in))
		}
		out := make(ir.Shape, len(in))
		for i, d := range in {
			out[i] = d.Mul(r[i])
		}
		return out, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		r, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		times, err := intShape(c, r)
		if err != nil {
			return nil, err
		}
		if len(times) != x.Rank() {
			return nil, fmt.Errorf("repeats %v, input has rank %d", r, x.Rank())
		}
		// Each axis becomes two: the repetition, with stride 0, and the elements.
		var shape, strides, out []int
		for i, st := range ops.Strides(x.Shape()) {
			shape = append(shape, times[i], x.Dim(i))
			strides = append(strides, 0, st)
			if x.Dim(i) > 0 && times[i] > ops.MaxElems/x.Dim(i) {
				return nil, fmt.Errorf("repeats %v of %s are too many", r, x)
			}
			out = append(out, times[i]*x.Dim(i))
		}
		y, err := alloc(c, x.DType(), out)
		if err != nil {
			return nil, err
		}
		m, i := newMover(c, y, x), 0
		ops.Walk(c, shape, strides, 0, func(o int) {
			m.copy(i, o, 1)
			i++
		})
		return ops.One(y, nil)
	},
	Along: alongMove(func(n *ir.Node, axis int) int {
		r, ok := ops.DimsOf(n.In(1))
		if ok && axis < len(r) && r[axis].Equal(ir.Const(1)) {
			return axis
		}
		return -1
	}), Tol: ir.Exact,
	Gradient: ops.GradientMoved(0),
	Linear:   ops.LinearFirst,
})
