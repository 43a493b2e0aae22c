package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Concat concatenates tensors along an axis.
var Concat = ops.Register(&ir.Op{
	Name: "Concat", Since: 13, Doc: "All inputs concatenated along axis. Their other dimensions are equal.",
	In: []ir.Param{{Name: "inputs", Elem: "T", Variadic: true}}, Out: ops.Sig("concat_result:T"),
	Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{{Name: "axis", Kind: ir.AttrInt, Required: true, Doc: "the axis"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		elem := n.In(0).Elem()
		var out ir.Shape
		axis := 0
		for i := range n.Inputs {
			t := tensorIn(n, i)
			switch {
			case t == nil:
				return nil, fmt.Errorf("input %d is missing", i)
			case t.NoRank:
				return one(noRank(elem))
			case i == 0:
				var err error
				if axis, err = ops.Axis(getInt(n, "axis"), len(t.Shape)); err != nil {
					return nil, err
				}
				out = slices.Clone(t.Shape)
				continue
			case len(t.Shape) != len(out):
				return nil, fmt.Errorf("input %d has rank %d, the first has %d", i, len(t.Shape), len(out))
			}
			for j, d := range t.Shape {
				a, okA := out[j].Known()
				b, okB := d.Known()
				switch {
				case j == axis:
					out[j] = out[j].Sum(d)
				case okA && okB && a != b:
					return nil, fmt.Errorf("input %d has shape %v, which differs from %v off axis %d",
						i, t.Shape, out, axis)
				case okB || out[j].IsUnknown():
					out[j] = d
				}
			}
		}
		return one(typed(elem, out))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		parts := make([]*tensor.Tensor, 0, len(in))
		for i := range in {
			c.Step(20)
			t, err := need(in, i, "inputs")
			if err != nil {
				return nil, err
			}
			parts = append(parts, t)
		}
		return ops.One(concat(c, parts, getInt(c.Node, "axis")))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		rank := len(n.In(0).Shape())
		axis, err := ops.Axis(getInt(n, "axis"), rank)
		ranks := make([]int, len(in))
		for i, f := range in {
			n.Step(1)
			ranks[i] = rank
			if !f.Constant() && (err != nil || f.Axis == axis) {
				return spread(n, ops.Global(n, in))
			}
		}
		return spread(n, ops.Join(n, in, ranks, rank))
	},
	Moves: func(n *ir.Node) (pieces []ir.Piece, ok bool) {
		pieces = make([]ir.Piece, 0, len(n.Inputs))
		at := 0
		for i, v := range n.Inputs {
			n.Step(2)
			rank := len(v.Shape())
			axis, err := ops.Axis(getInt(n, "axis"), rank)
			if err != nil {
				return nil, false
			}
			from := make([]int, rank)
			from[axis] = -at
			pieces = append(pieces, ir.Piece{Input: i, From: from})
			size, known := v.Shape()[axis].Known()
			if !known && i < len(n.Inputs)-1 {
				return nil, false
			}
			at += int(size)
		}
		return pieces, len(pieces) > 0
	},
	Gradient: gradConcat,
	Linear:   ops.LinearAll,
	Tol:      ir.Exact,
})

// concat concatenates one or more tensors along an axis.
func concat(c *ir.EvalCtx, parts []*tensor.Tensor, axis int64) (*tensor.Tensor, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("nothing to concatenate")
	}
	a, err := ops.Axis(axis, parts[0].Rank())
	if err != nil {
		return nil, err
	}
	shape := slices.Clone(parts[0].Shape())
	shape[a] = 0
	for i, t := range parts {
		c.Step(20)
		if err := sameElem(parts[0], t); err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		if t.Rank() != len(shape) {
			return nil, fmt.Errorf("part %d has shape %v, the first %v", i, t.Shape(), parts[0].Shape())
		}
		for j, d := range t.Shape() {
			if j == a {
				shape[a] += d
			} else if d != shape[j] {
				return nil, fmt.Errorf("part %d has shape %v, the first %v, which differ off axis %d",
					i, t.Shape(), parts[0].Shape(), a)
			}
		}
	}
	out, err := alloc(c, parts[0].DType(), shape)
	if err != nil {
		return nil, err
	}
	outer, n, inner := splitAt(shape, a)
	at := 0
	for _, t := range parts {
		c.Step(20)
		m, run := newMover(c, out, t), t.Dim(a)*inner
		for o := range ops.Each(c, outer) {
			m.copy(o*n*inner+at, o*run, run)
		}
		at += run
	}
	return out, nil
}
