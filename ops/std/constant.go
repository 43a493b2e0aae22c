package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Constant returns the tensor in its attributes.
var Constant = ops.Register(&ir.Op{
	Name: "Constant", Since: 24, Doc: "The tensor in the attribute; exactly one attribute is given.",
	Out: ops.Sig("output:T"), Elems: elems("T", ops.Any), OfShapes: true,
	Attrs: []ir.AttrSpec{
		{Name: "value", Kind: ir.AttrTensor, Doc: "any tensor"},
		{Name: "sparse_value", Kind: ir.AttrTensor, Doc: "a tensor that is sparse in the file, and dense here"},
		{Name: "value_float", Kind: ir.AttrFloat, Doc: "a float32 scalar"},
		{Name: "value_floats", Kind: ir.AttrFloats, Doc: "a float32 vector"},
		{Name: "value_int", Kind: ir.AttrInt, Doc: "an int64 scalar"},
		{Name: "value_ints", Kind: ir.AttrInts, Doc: "an int64 vector"},
		{Name: "value_string", Kind: ir.AttrString, Doc: "a string scalar"},
		{Name: "value_strings", Kind: ir.AttrStrings, Doc: "a string vector"},
	},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		t, err := constantValue(n)
		if err != nil {
			return nil, err
		}
		return one(ir.Of(t))
	},
	Eval: func(c *ir.EvalCtx, _ []tensor.Datum) ([]tensor.Datum, error) {
		t, err := constantValue(c.Node)
		if err != nil {
			return nil, err
		}
		return ops.One(ops.Convert(c, t, wide(c, t.DType()), false))
	},
	Along: ops.AlongElementwise, Tol: ir.Exact,
})

func constantValue(n *ir.Node) (*tensor.Tensor, error) {
	if len(n.Attrs) != 1 {
		return nil, fmt.Errorf("expected exactly one attribute, found %d", len(n.Attrs))
	}
	switch v := n.Attrs[0].Value.(type) {
	case *tensor.Tensor:
		return v, nil
	case float64:
		return tensor.Scalar(float32(v)), nil
	case []float64:
		return tensor.FromFloat64s(tensor.Float32, v, len(v))
	case int64:
		return tensor.Scalar(v), nil
	case []int64:
		return tensor.FromSlice(v, len(v)), nil
	case string:
		return tensor.FromStrings([]string{v}), nil
	case []string:
		return tensor.FromStrings(v, len(v)), nil
	}
	return nil, fmt.Errorf("attribute %s has no constant", n.Attrs[0].Name)
}

// ConstantOfShape returns a tensor of equal elements.
var ConstantOfShape = ops.Register(&ir.Op{
	Name: "ConstantOfShape", Since: 24,
	Doc: "A tensor of the given shape, filled with the one element of value (default: float32 0).",
	In:  ops.Sig("input:int64[_]"), Out: ops.Sig("output:T2"), Elems: elems("T2", ops.Any),
	Attrs: []ir.AttrSpec{{Name: "value", Kind: ir.AttrTensor, Doc: "one element"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		v, err := fillValue(n)
		if err != nil {
			return nil, err
		}
		s, ok := ops.DimsOf(n.In(0))
		if !ok {
			return one(noRank(v.DType()))
		}
		for _, d := range s {
			if k, ok := d.Known(); ok && k < 0 {
				return nil, fmt.Errorf("shape %v has a negative size", s)
			}
		}
		return one(typed(v.DType(), s))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		v, err := fillValue(c.Node)
		if err != nil {
			return nil, err
		}
		want, err := ints(c, in, 0)
		if err != nil {
			return nil, err
		}
		shape, err := intShape(c, want)
		if err != nil {
			return nil, err
		}
		if v, err = ops.Convert(c, v, wide(c, v.DType()), false); err != nil {
			return nil, err
		}
		out, err := alloc(c, v.DType(), shape)
		if err != nil {
			return nil, err
		}
		fillWith(c, out, v)
		return ops.One(out, nil)
	},
	// The elements are equal, so they do not vary even if the sizes do.
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		if !in[0].Constant() && !onlySizes(n, 0) {
			return spread(n, ops.Global(n, in))
		}
		return spread(n, ir.Fact{})
	},
	Tol: ir.Exact,
})

func fillValue(n *ir.Node) (*tensor.Tensor, error) {
	v := n.Attrs.Tensor("value")
	if v == nil {
		return tensor.Scalar(float32(0)), nil
	}
	if v.Len() != 1 {
		return nil, fmt.Errorf("attribute value: expected one element, found %s", v)
	}
	return v, nil
}
