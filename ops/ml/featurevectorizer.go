package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// FeatureVectorizer concatenates features.
var FeatureVectorizer = ops.Register(&ir.Op{
	Domain: Domain, Name: "FeatureVectorizer", Since: 1,
	Doc: "Concatenates matrices of samples by features along the features, as float32; a vector is one sample. " +
		"inputdimensions cuts each " +
		"input's features off at that number, or pads them with zeros.",
	In: ops.Sig("X:T1*"), Out: ops.Sig("Y:float32[_,_]"), Elems: elems("T1", numeric),
	Attrs: []ir.AttrSpec{intsAttr("inputdimensions", "features per input; absent: all")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		dims, err := inputDimensions(n)
		if err != nil {
			return nil, err
		}
		rows, cols := ir.Unknown, ir.Const(0)
		for i, v := range n.Inputs {
			n.Step(2)
			t, _ := ir.AsTensor(v.Type)
			r, k := ir.Unknown, ir.Unknown
			switch {
			case t.NoRank:
			case len(t.Shape) == 1:
				r, k = ir.Const(1), t.Shape[0]
			case len(t.Shape) == 2:
				r, k = t.Shape[0], t.Shape[1]
			default:
				return nil, fmt.Errorf("input %d: expected samples by features, found %v", i, t)
			}
			if dims != nil {
				k = ir.Const(dims[i])
			}
			x, okX := rows.Known()
			y, okY := r.Known()
			if okX && okY && x != y {
				return nil, fmt.Errorf("input %d has %d samples, previous ones have %d", i, y, x)
			}
			if rows.IsUnknown() || okY {
				rows = r
			}
			cols = cols.Sum(k)
		}
		return []ir.Type{ir.Tensor(tensor.Float32, rows, cols)}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		dims, err := inputDimensions(c.Node)
		if err != nil {
			return nil, err
		}
		rows, cols := -1, 0
		parts, widths := make([][]float64, len(in)), make([]int, len(in))
		for i := range in {
			v, r, k, err := matrix(c, in[i:])
			if err != nil {
				return nil, fmt.Errorf("input %d: %w", i, err)
			}
			if rows >= 0 && r != rows {
				return nil, fmt.Errorf("input %d has %d samples, previous ones have %d", i, r, rows)
			}
			rows, parts[i], widths[i] = r, v, k
			if dims != nil {
				k = int(dims[i])
			}
			if cols += k; cols > ops.MaxElems {
				return nil, fmt.Errorf("%d features, more than %d", cols, ops.MaxElems)
			}
		}
		rows = max(rows, 0)
		size, err := ops.Elems([]int{rows, cols})
		if err != nil {
			return nil, err
		}
		out, at := ops.Make[float64](c, size), 0
		for i, v := range parts {
			k := widths[i]
			if dims != nil {
				k = int(dims[i])
			}
			for r := range ops.Each(c, rows) {
				ops.Put(c, out[r*cols+at:r*cols+at+k], v[r*widths[i]:(r+1)*widths[i]])
			}
			at += k
		}
		return ops.One(ops.Real(c, tensor.Float32, out, rows, cols))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		ranks := make([]int, len(in))
		for i, f := range in {
			n.Step(1)
			if ranks[i] = 2; !f.Constant() && (f.Axis != 0 || len(n.In(i).Shape()) != 2) {
				return []ir.Fact{ops.Global(n, in)}
			}
		}
		return []ir.Fact{ops.Join(n, in, ranks, 2)}
	},
	NoGradient: fitted,
	Linear:     ops.LinearAll,
	Tol:        ir.Exact,
})

func inputDimensions(n *ir.Node) ([]int64, error) {
	dims := n.Attrs.Ints("inputdimensions", nil)
	if dims == nil {
		return nil, nil
	}
	if len(dims) != len(n.Inputs) {
		return nil, fmt.Errorf("inputdimensions has %d elements for %d inputs", len(dims), len(n.Inputs))
	}
	for _, d := range dims {
		if d < 0 || d > ops.MaxElems {
			return nil, fmt.Errorf("inputdimensions holds %d, expected 0 to %d", d, ops.MaxElems)
		}
	}
	return dims, nil
}
