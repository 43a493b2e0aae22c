package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// MaxUnpool moves the results of MaxPool back to their positions.
var MaxUnpool = ops.Same(ops.Register(&ir.Op{
	Name: "MaxUnpool", Since: 22,
	Doc: "Zeros with the elements of X (N,C,…) at the flat positions I of a tensor of the size for which MaxPool " +
		"with these attributes returns X, or of output_shape if that is given.",
	In: ops.Sig("X:T1", "I:int64", "output_shape:int64[_]?"), Out: ops.Sig("output:T1"),
	Elems: map[string][]tensor.DType{"T1": ops.Floats},
	Attrs: []ir.AttrSpec{{Name: "kernel_shape", Kind: ir.AttrInts, Required: true, Doc: "taps per axis"},
		intsAttr("pads", "all begins, then all ends (default 0)"), intsAttr("strides", "steps per axis (default 1)")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		if len(in) < 3 {
			return nil, fmt.Errorf("X: expected at least three axes, found %v", in)
		}
		if n.In(2) != nil {
			if out, ok := ops.DimsOf(n.In(2)); ok && len(out) == len(in) {
				return out, nil
			}
			return unknownShape(len(in)), nil
		}
		win, taps, err := poolWindows(n, len(in)-2)
		if err != nil {
			return nil, err
		}
		out := in[:2:2]
		for i, w := range win {
			out = append(out, spreadOut(w, in[i+2], ir.Const(taps[i]), 0, nil, i))
		}
		return out, nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		where, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		if x.Rank() < 3 || len(where) != x.Len() {
			return nil, fmt.Errorf("X %s with %d positions: expected at least three axes, and a position per element",
				x, len(where))
		}
		win, taps, err := poolWindows(c.Node, x.Rank()-2)
		if err != nil {
			return nil, err
		}
		full := append([]int64{}, int64(x.Dim(0)), int64(x.Dim(1)))
		for i, w := range win {
			d, _ := spreadOut(w, ir.Const(int64(x.Dim(i+2))), ir.Const(taps[i]), 0, nil, i).Known()
			full = append(full, d)
		}
		inner, err := intShape(c, full)
		if err != nil {
			return nil, err
		}
		shape := inner
		if want, err := ints(c, in, 2); err != nil {
			return nil, err
		} else if want != nil {
			if shape, err = intShape(c, want); err != nil {
				return nil, fmt.Errorf("output_shape: %w", err)
			}
			if len(shape) != len(inner) {
				return nil, fmt.Errorf("output_shape %v: expected %d sizes", shape, len(inner))
			}
		}
		v, y := ops.F64(c, in, 0), ops.Make[float64](c, product(shape))
		size, index := int64(product(inner)), make([]int, len(shape))
		for i, p := range where {
			c.Step(1)
			if p < 0 || p >= size {
				return nil, fmt.Errorf("I: position %d is outside of shape %v", p, inner)
			}
			unravel(int(p), inner, index)
			o := 0
			for a, k := range index {
				if k >= shape[a] {
					return nil, fmt.Errorf("I: position %d of shape %v is outside of output_shape %v", p, inner, shape)
				}
				o = o*shape[a] + k
			}
			y[o] = v[i]
		}
		return ops.One(ops.Real(c, x.DType(), y, shape...))
	},
	Gradient: ops.GradientMoved(0),
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
}), 11, 9)
