package essm

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// stepAttrs describe how a value that is computed chunk by chunk moves along time.
var stepAttrs = []ir.AttrSpec{
	{Name: "rate", Kind: ir.AttrInt, Default: int64(1), Doc: "steps of the input per step of x"},
	{Name: "offset", Kind: ir.AttrInt, Default: int64(0), Doc: "a sequence of n steps has floor((n+offset)/rate) of x"},
	{Name: "delay", Kind: ir.AttrInt, Default: int64(0), Doc: "steps of x before its first one"},
}

// pace reads stepAttrs.
type pace struct{ rate, offset, delay int64 }

func paceOf(n *ir.Node) (pace, error) {
	p := pace{ops.Int(n, "rate"), ops.Int(n, "offset"), ops.Int(n, "delay")}
	if p.rate < 1 || p.rate > maxWindow || p.delay < 0 || p.delay > maxWindow || p.offset < -maxWindow ||
		p.offset > maxWindow {
		return p, fmt.Errorf("rate %d, offset %d, delay %d: expected a rate of 1 or more and a delay of 0 or more, "+
			"none above %d", p.rate, p.offset, p.delay, int64(maxWindow))
	}
	return p, nil
}

// steps returns the number of steps of x for a sequence of n steps.
func (p pace) steps(n int64) int64 {
	q := (n + p.offset) / p.rate
	if (n+p.offset)%p.rate < 0 {
		q--
	}
	return max(0, q)
}

// perSample is one number per sample, or a single one for all; nil if the input is absent.
type perSample []int64

// samplesOf returns what input i holds.
func samplesOf(in []tensor.Datum, i int) perSample {
	t := ops.Tensor(in, i)
	if t == nil {
		return nil
	}
	if v := tensor.Data[int64](t); v != nil {
		return v
	}
	return perSample{}
}

// check returns an error if the numbers do not fit a batch of this size.
func (v perSample) check(name string, batch int) error {
	if v != nil && len(v) != batch && len(v) != 1 {
		return fmt.Errorf("%s: expected %d numbers, found %d", name, batch, len(v))
	}
	for b, k := range v {
		if k < 0 || k > 1<<62 {
			return fmt.Errorf("%s[%d]: expected 0 or more, found %d", name, b, k)
		}
	}
	return nil
}

// of returns the number of sample b.
func (v perSample) of(b int) int64 {
	if len(v) == 1 {
		return v[0]
	}
	return v[b]
}

// StepMask clears the steps of a chunk that are outside the sequence.
var StepMask = ops.Register(&ir.Op{
	Domain: "essm", Name: "StepMask",
	Doc: `x at the steps of the sequence, value elsewhere. Index j along axis is step t = steps/rate + j - delay, where
steps[b] counts the steps of the input before the chunk. The steps of the sequence are 0 ≤ t < floor((end+offset)/rate),
or all t ≥ 0 if end is absent.`,
	In:    ops.Sig("x:T[...]", "steps:int64[_]", "end:int64[_]?"),
	Out:   ops.Sig("y:T[...]"),
	Elems: map[string][]tensor.DType{"T": append(slices.Clone(ops.Numbers), tensor.Bool)},
	Attrs: append([]ir.AttrSpec{
		{Name: "axis", Kind: ir.AttrInt, Required: true, Doc: "the axis that carries time"},
		{Name: "batch_axis", Kind: ir.AttrInt, Default: int64(0), Doc: "the axis that carries the batch; -1: none"},
		{Name: "value", Kind: ir.AttrFloat, Default: 0.0, Doc: "the value outside the sequence"},
	}, stepAttrs...),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		if _, err := paceOf(n); err != nil {
			return nil, err
		}
		if t, ok := n.In(0).TensorType(); ok && !t.NoRank {
			if _, _, err := stepAxes(n, len(t.Shape)); err != nil {
				return nil, err
			}
		}
		return b.Outputs(n.Op)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		axis, batchAxis, err := stepAxes(c.Node, x.Rank())
		if err != nil {
			return nil, err
		}
		p, err := paceOf(c.Node)
		if err != nil {
			return nil, err
		}
		batch := 1
		if batchAxis >= 0 {
			batch = x.Dim(batchAxis)
		}
		steps, end := samplesOf(in, 1), samplesOf(in, 2)
		if err := steps.check("steps", batch); err != nil {
			return nil, err
		}
		if err := end.check("end", batch); err != nil {
			return nil, err
		}
		keep := ops.Make[bool](c, batch*x.Dim(axis))
		for b := range batch {
			c.Step(1)
			for j := range ops.Each(c, x.Dim(axis)) {
				t := steps.of(b)/p.rate + int64(j) - p.delay
				keep[b*x.Dim(axis)+j] = t >= 0 && (end == nil || t < p.steps(end.of(b)))
			}
		}
		strides := make([]int, x.Rank())
		strides[axis] = 1
		if batchAxis >= 0 {
			strides[batchAxis] = x.Dim(axis)
		}
		fill, err := ops.FromFloat64s(c, x.DType(), []float64{c.Node.Attrs.Float("value", 0)}, 1)
		if err != nil {
			return nil, err
		}
		y := ops.Copy(c, x)
		size, dst, src, i := x.DType().Bits()/8, y.Bytes(), fill.Bytes(), 0
		ops.Walk(c, x.Shape(), strides, 0, func(o int) {
			if !keep[o] {
				copy(dst[i*size:(i+1)*size], src)
			}
			i++
		})
		return []tensor.Datum{y}, nil
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		return []ir.Fact{perSampleFact(n, in, int(ops.Int(n, "batch_axis")))}
	},
	Gradient: gradStepMask,
	Linear:   linearStepMask,
	Tol:      ir.Exact,
})

// perSampleFact returns the fact of a value that is computed per sample. The first input varies along axis, and the
// others, which are counts per sample, along their first axis.
func perSampleFact(n *ir.Node, in []ir.Fact, axis int) ir.Fact {
	moved, ranks := make([]ir.Fact, len(in)), make([]int, len(in)) // as if all had the axis in one place
	for i, f := range in {
		if at := max(axis, 0); i > 0 && f.Axis == 0 {
			f.Axis = at
		} else if f.Axis != at && !f.Constant() {
			return ops.Global(n, in)
		}
		moved[i] = f
	}
	return ops.Join(n, moved, ranks, 0)
}

// stepAxes returns the axes of time and batch.
func stepAxes(n *ir.Node, rank int) (axis, batch int, err error) {
	if axis, err = ops.Axis(ops.Int(n, "axis"), rank); err != nil {
		return 0, 0, err
	}
	k := ops.Int(n, "batch_axis")
	if k < -1 || k >= int64(rank) || int(k) == axis {
		return 0, 0, fmt.Errorf("batch_axis: expected -1, or an axis of rank %d that is not axis %d, found %d", rank,
			axis, k)
	}
	return axis, int(k), nil
}

func linearStepMask(n *ir.Node) [][]int {
	if n.Attrs.Float("value", 0) != 0 {
		return nil
	}
	return [][]int{{0}}
}
