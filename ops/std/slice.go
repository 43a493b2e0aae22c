package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Slice takes ranges of axes, as numpy does.
var Slice = ops.Register(&ir.Op{
	Name: "Slice", Since: 13, Doc: "data[start:end:step] on each of the given axes (default: the first ones); negative numbers count from the end, steps may be negative.",
	In:    ops.Sig("data:T", "starts:Tind[_]", "ends:Tind[_]", "axes:Tind[_]?", "steps:Tind[_]?"),
	Out:   ops.Sig("output:T"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "Tind": indexTypes},
	Infer: inferShape(inferSlice), Eval: evalSlice, Along: alongSlice, Tol: ir.Exact,
})

func inferSlice(n *ir.Node, in ir.Shape) (ir.Shape, error) {
	starts, okS := ops.DimsOf(n.In(1))
	ends, okE := ops.DimsOf(n.In(2))
	axes, okA := sliceAxes(n, len(starts))
	if !okA || !okS || !okE {
		return unknownShape(len(in)), nil
	}
	if len(starts) != len(ends) || len(starts) != len(axes) {
		return nil, fmt.Errorf("%d starts, %d ends and %d axes", len(starts), len(ends), len(axes))
	}
	if _, err := ops.AxesOf(axes, len(in)); err != nil {
		return nil, err
	}
	out := slices.Clone(in)
	for i, ax := range axes {
		a, _ := ops.Axis(ax, len(in))
		step, ok := sliceStep(n, i)
		if !ok {
			out[a] = ir.Unknown
			continue
		}
		if step == 0 {
			return nil, fmt.Errorf("steps: 0 at place %d", i)
		}
		out[a] = slicedDim(in[a], starts[i], ends[i], step)
	}
	return out, nil
}

func sliceAxes(n *ir.Node, count int) ([]int64, bool) {
	if n.In(3) == nil {
		axes := make([]int64, count)
		for i := range axes {
			axes[i] = int64(i)
		}
		return axes, true
	}
	return ops.ConstInts(n.In(3))
}

func sliceStep(n *ir.Node, i int) (int64, bool) {
	if n.In(4) == nil {
		return 1, true
	}
	steps, ok := ops.ConstInts(n.In(4))
	if !ok || i >= len(steps) {
		return 0, false
	}
	return steps[i], true
}

// slicedDim is the size that is left of dimension d; dimensions are taken to be non-negative, and large enough for the
// bounds that negative numbers state.
func slicedDim(d, start, end ir.Dim, step int64) ir.Dim {
	size, known := d.Known()
	s, okS := start.Known()
	e, okE := end.Known()
	if known && okS && okE {
		_, n := ops.SliceRange(s, e, step, size)
		return ir.Const(n)
	}
	if step < 0 {
		if okS && okE && s == -1 && e <= math.MinInt32 {
			return d.Add(ir.Const(-step - 1)).FloorDiv(ir.Const(-step))
		}
		return ir.Unknown
	}
	from := start
	if okS && s < 0 {
		if s <= math.MinInt32 {
			return ir.Unknown
		}
		from = d.Add(ir.Const(s)).Max(ir.Const(0))
	}
	to := end
	switch {
	case okE && e >= math.MaxInt32, end.Equal(d):
		to = d
	case okE && e < 0:
		if e <= math.MinInt32 {
			return ir.Const(0)
		}
		to = d.Add(ir.Const(e))
	default:
		to = end.Min(d)
		if diff, ok := d.Sub(end).Known(); ok && diff >= 0 {
			to = end
		} else if surelyAtLeast(d, end) {
			to = end
		}
	}
	n := to.Sub(from)
	if k, ok := from.Known(); !ok || k != 0 || !simple(to) {
		n = n.Max(ir.Const(0))
	}
	if okS && s >= 0 && okE && e >= math.MaxInt32 && s == 0 {
		n = d
	}
	return n.Add(ir.Const(step - 1)).FloorDiv(ir.Const(step))
}

// surelyAtLeast reports that d - e is a sum of non-negative parts: all symbols stand for sizes, which are not negative.
func surelyAtLeast(d, e ir.Dim) bool {
	diff := d.Sub(e)
	at := map[string]int64{}
	for _, s := range diff.Symbols() {
		at[s] = 0
	}
	// A polynomial with only plain symbols and no negative coefficients is written without a minus sign.
	v, err := diff.Eval(at)
	return err == nil && v >= 0 && !slices.Contains([]byte(diff.String()), '-') && !diff.IsUnknown()
}

// simple reports that a dimension is written without subtraction, so it is not negative.
func simple(d ir.Dim) bool { return surelyAtLeast(d, ir.Const(0)) }

func evalSlice(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "data")
	if err != nil {
		return nil, err
	}
	var p [5][]int64
	for i := 1; i < 5; i++ {
		if p[i], err = ints(in, i); err != nil {
			return nil, err
		}
	}
	starts, ends, axes, steps := p[1], p[2], p[3], p[4]
	if axes == nil {
		for i := range starts {
			axes = append(axes, int64(i))
		}
	}
	if steps == nil {
		for range starts {
			steps = append(steps, 1)
		}
	}
	if len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts) {
		return nil, fmt.Errorf("%d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	if _, err := ops.AxesOf(axes, x.Rank()); err != nil {
		return nil, err
	}
	shape, strides, offset := slices.Clone(x.Shape()), ops.Strides(x.Shape()), 0
	for i, ax := range axes {
		a, _ := ops.Axis(ax, x.Rank())
		if steps[i] == 0 {
			return nil, fmt.Errorf("steps: 0 at place %d", i)
		}
		first, n := ops.SliceRange(starts[i], ends[i], steps[i], int64(x.Dim(a)))
		offset += int(first) * strides[a]
		shape[a] = int(n)
		if n > 1 { // a single element takes no step, and the step may be huge
			strides[a] *= int(steps[i])
		}
	}
	out, err := alloc(x.DType(), shape)
	if err != nil {
		return nil, err
	}
	m, i := newMover(out, x), 0
	ops.Walk(shape, strides, offset, func(o int) {
		m.copy(i, o, 1)
		i++
	})
	return ops.One(out, nil)
}

// alongSlice: off the axis nothing happens; on it, a range that starts at a constant place shifts the steps, and a step
// makes them coarser.
func alongSlice(n *ir.Node, in []ir.Fact) []ir.Fact {
	f := in[0]
	f.State = 0
	if f.Constant() || f.Global || f.Axis < 0 {
		return spread(n, f)
	}
	starts, ok := ops.DimsOf(n.In(1))
	axes, okA := sliceAxes(n, len(starts))
	if !ok || !okA {
		return spread(n, ops.Global(n, in))
	}
	rank := len(n.In(0).Shape())
	for i, ax := range axes {
		a, err := ops.Axis(ax, rank)
		if err != nil || i >= len(starts) {
			return spread(n, ops.Global(n, in))
		}
		if a != f.Axis {
			continue
		}
		s, okS := starts[i].Known()
		step, okStep := sliceStep(n, i)
		if !okS || !okStep || s < 0 || s > math.MaxInt32 || step <= 0 || step > math.MaxInt32 {
			return spread(n, ops.Global(n, in))
		}
		f = shift(f, s)
		f.Stride *= step
	}
	return spread(n, f)
}
