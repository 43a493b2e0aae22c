package std

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Shape returns the dimensions of a tensor.
var Shape = ops.Register(&ir.Op{
	Name: "Shape", Since: 24, Doc: "The dimensions of data from start up to end, as a vector.",
	In: ops.Sig("data:T"), Out: ops.Sig("shape:int64[_]"), Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("start", 0, "first axis"), intAttr("end", nil, "axis after the last; absent: all")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		if t.NoRank {
			return one(typed(tensor.Int64, unknownShape(1)))
		}
		from, to := ops.ShapeRange(n.Attrs, len(t.Shape))
		return one(ir.Tensor(tensor.Int64, to-from))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		from, to := ops.ShapeRange(c.Node.Attrs, t.Rank())
		out := ops.Make[int64](c, to-from)[:0]
		for _, d := range t.Shape()[from:to] {
			out = append(out, int64(d))
		}
		return ops.One(tensor.FromSlice(out, len(out)), nil)
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		s := n.In(0).Shape()
		from, to := ops.ShapeRange(n.Attrs, len(s))
		return spread(n, sizesFact(n, in, s[from:to]))
	},
	OfShapes: true, Tol: ir.Exact,
})

// Size returns the number of elements of a tensor.
var Size = ops.Register(&ir.Op{
	Name: "Size", Since: 24, Doc: "The number of elements of data, as a scalar.",
	In: ops.Sig("data:T"), Out: ops.Sig("size:int64[]"), Elems: elems("T", ops.Any),
	Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		return ops.One(tensor.Scalar(int64(t.Len())), nil)
	},
	Along:    func(n *ir.Node, in []ir.Fact) []ir.Fact { return spread(n, sizesFact(n, in, n.In(0).Shape())) },
	OfShapes: true, Tol: ir.Exact,
})

// sizesFact returns the fact of sizes, which depend on the length of the dimension, but not on data along it.
func sizesFact(n *ir.Node, in []ir.Fact, s ir.Shape) ir.Fact {
	if in[0].Constant() {
		return ir.Fact{}
	}
	for _, d := range s {
		if d.IsUnknown() || slices.Contains(d.Symbols(), in[0].Symbol) {
			return ops.Global(n, in)
		}
	}
	if s == nil {
		return ops.Global(n, in)
	}
	return ir.Fact{}
}
