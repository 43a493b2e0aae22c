package ml

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// ArrayFeatureExtractor selects features.
var ArrayFeatureExtractor = ops.Register(&ir.Op{
	Domain: Domain, Name: "ArrayFeatureExtractor", Since: 1,
	Doc: "The elements of X along its last axis at the indices Y; a vector X becomes a matrix of one row.",
	In:  ops.Sig("X:T", "Y:int64"), Out: ops.Sig("Z:T"),
	Elems: elems("T", append(slices.Clone(numeric), tensor.String)),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		x, _ := ir.AsTensor(n.In(0).Type)
		y, _ := ir.AsTensor(n.In(1).Type)
		if x.NoRank {
			return []ir.Type{x}, nil
		}
		if len(x.Shape) == 0 {
			return nil, fmt.Errorf("input 0 (X): expected at least one axis, found a scalar")
		}
		picked := ir.Unknown
		if !y.NoRank {
			picked = y.Shape.Size()
		}
		s := append(slices.Clone(x.Shape[:len(x.Shape)-1]), picked)
		if len(s) == 1 {
			s = ir.Shape{ir.Const(1), picked}
		}
		return []ir.Type{&ir.TensorType{Elem: x.Elem, Shape: s}}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, y := ops.Tensor(in, 0), ops.Tensor(in, 1)
		if x.Rank() == 0 {
			return nil, fmt.Errorf("input 0 (X): expected at least one axis, found %s", x)
		}
		index, err := ops.Int64s(c, y)
		if err != nil {
			return nil, err
		}
		cols := x.Dim(-1)
		for _, k := range ops.All(c, index) {
			if k < 0 || k >= int64(cols) {
				return nil, fmt.Errorf("input 1 (Y): index %d is outside of the %d features of %s", k, cols, x)
			}
		}
		shape := append(slices.Clone(x.Shape()[:x.Rank()-1]), len(index))
		if len(shape) == 1 {
			shape = []int{1, len(index)}
		}
		size, err := ops.Elems(shape)
		if err != nil {
			return nil, err
		}
		z := ops.New(c, x.DType(), shape...)
		w := x.DType().Bits() / 8
		for i := range ops.Each(c, size) {
			from := i/len(index)*cols + int(index[i%len(index)])
			if x.DType() == tensor.String {
				z.Strings()[i] = x.Strings()[from]
			} else {
				copy(z.Bytes()[i*w:(i+1)*w], x.Bytes()[from*w:])
			}
		}
		return []tensor.Datum{z}, nil
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		if !in[1].Constant() || !f.Constant() && !f.Global && f.Axis == len(n.In(0).Shape())-1 {
			f = ops.Global(n, in)
		}
		return []ir.Fact{f}
	},
	Gradient: ops.GradientMoved(0),
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
})
