package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// ReverseSequence reverses the beginning of each sequence.
var ReverseSequence = ops.Register(&ir.Op{
	Name: "ReverseSequence", Since: 10,
	Doc: "input with the first sequence_lens[b] steps of each sequence b reversed; time and batch are the first two " +
		"axes, in either order.",
	In: ops.Sig("input:T[...]", "sequence_lens:int64[_]"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", ops.Any),
	Attrs: []ir.AttrSpec{intAttr("batch_axis", 1, "0 or 1"), intAttr("time_axis", 0, "0 or 1, the other one")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		lens, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		ba, ta := getInt(c.Node, "batch_axis"), getInt(c.Node, "time_axis")
		if ba+ta != 1 || ba*ta != 0 || x.Rank() < 2 {
			return nil, fmt.Errorf("batch_axis %d and time_axis %d of %s: expected 0 and 1", ba, ta, x)
		}
		if len(lens) != x.Dim(int(ba)) {
			return nil, fmt.Errorf("%d lengths for a batch of %d", len(lens), x.Dim(int(ba)))
		}
		out := ops.Copy(c, x)
		strides := ops.Strides(x.Shape())
		m, run := newMover(c, out, x), strides[1]
		for b, n := range lens {
			c.Step(1)
			if n < 0 || n > int64(x.Dim(int(ta))) {
				return nil, fmt.Errorf("length %d of sequence %d is not between 0 and %d", n, b, x.Dim(int(ta)))
			}
			for t := range ops.Each(c, int(n)) {
				base := b * strides[ba]
				m.copy(base+t*strides[ta], base+(int(n)-1-t)*strides[ta], run)
			}
		}
		return ops.One(out, nil)
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f, lens := in[0], in[1]
		f.State = 0
		batch := int(getInt(n, "batch_axis"))
		perSequence := lens.Constant() || !lens.Global && lens.Axis == 0 && (f.Constant() || f.Axis == batch)
		switch {
		case f.Global || !perSequence || !f.Constant() && f.Axis == int(getInt(n, "time_axis")):
			return spread(n, ops.Global(n, in))
		case f.Constant() && !lens.Constant():
			lens.Axis = batch
			return spread(n, lens)
		}
		return spread(n, f)
	},
	Gradient: ops.GradientMoved(0),
	Linear:   ops.LinearFirst,
	Tol:      ir.Exact,
})
