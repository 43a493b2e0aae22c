package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Gather selects slices along an axis.
var Gather = ops.Register(&ir.Op{
	Name: "Gather", Since: 13,
	Doc: "The slices of data at indices along axis. The shape of indices replaces the axis. Negative indices count " +
		"from the end.",
	In: ops.Sig("data:T", "indices:Tind"), Out: ops.Sig("output:T"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "Tind": indexTypes},
	Attrs: []ir.AttrSpec{intAttr("axis", 0, "the axis")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		a, err := ops.Axis(getInt(n, "axis"), len(in))
		if err != nil {
			return nil, err
		}
		idx := tensorIn(n, 1)
		if idx.NoRank {
			return nil, nil
		}
		// not nil, which would mean an unknown rank
		return append(append(append(ir.Shape{}, in[:a]...), idx.Shape...), in[a+1:]...), nil
	}),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		it, err := need(in, 1, "indices")
		if err != nil {
			return nil, err
		}
		a, err := ops.Axis(getInt(c.Node, "axis"), x.Rank())
		if err != nil {
			return nil, err
		}
		outer, n, inner := splitAt(x.Shape(), a)
		idx, err := indices(c, it, n)
		if err != nil {
			return nil, err
		}
		out, err := alloc(c, x.DType(), slices.Concat(x.Shape()[:a], it.Shape(), x.Shape()[a+1:]))
		if err != nil {
			return nil, err
		}
		m := newMover(c, out, x)
		for o := range outer {
			c.Step(1)
			for i, k := range ops.All(c, idx) {
				m.copy((o*len(idx)+i)*inner, (o*n+k)*inner, inner)
			}
		}
		return ops.One(out, nil)
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		rank, ri := len(n.In(0).Shape()), len(n.In(1).Shape())
		a, err := ops.Axis(getInt(n, "axis"), rank)
		data, idx := in[0], in[1]
		data.State, idx.State = 0, 0
		switch {
		case err != nil || !data.Constant() && !idx.Constant():
			return spread(n, ops.Global(n, in))
		case data.Constant(): // a table
			if !idx.Constant() && !idx.Global && idx.Axis >= 0 {
				idx.Axis += a
			}
			return spread(n, idx)
		case data.Global || data.Axis < 0:
			return spread(n, data)
		case data.Axis == a:
			if _, ok := ops.ConstInts(n.In(1)); ok { // steps at fixed indices need a state, even the last ones
				return spread(n, summed(n, data))
			}
			return spread(n, ops.Global(n, in))
		case data.Axis > a:
			data.Axis += ri - 1
		}
		return spread(n, data)
	},
	Gradient: gradGather,
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
})

// indices reads indices of a dimension of n elements, and makes them non-negative.
func indices(c *ir.EvalCtx, t *tensor.Tensor, n int) ([]int, error) {
	v, err := ops.Int64s(c, t)
	if err != nil {
		return nil, err
	}
	out := ops.Make[int](c, len(v))
	for i, k := range ops.All(c, v) {
		if out[i], err = index(k, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// index makes an index of a dimension of n elements non-negative.
func index(k int64, n int) (int, error) {
	if k < -int64(n) || k >= int64(n) {
		return 0, fmt.Errorf("index %d is outside of a dimension of %d", k, n)
	}
	if k < 0 {
		k += int64(n)
	}
	return int(k), nil
}
