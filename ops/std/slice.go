package std

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Slice selects ranges of axes, like numpy.
var Slice = ops.Register(&ir.Op{
	Name: "Slice", Since: 13,
	Doc: "data[start:end:step] on each of the given axes (default: the first ones); negative numbers count from the " +
		"end, steps may be negative.",
	In:    ops.Sig("data:T", "starts:Tind[_]", "ends:Tind[_]", "axes:Tind[_]?", "steps:Tind[_]?"),
	Out:   ops.Sig("output:T"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "Tind": indexTypes},
	Infer: inferShape(inferSlice), Eval: evalSlice, Along: alongSlice, Moves: moveSlice, Tol: ir.Exact,
	Gradient: ops.GradientMoved(0),
	Linear:   ops.LinearFirst,
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

// slicedDim returns the size of a slice of dimension d. Symbols are at least 1.
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
	n := bound(d, end).Sub(bound(d, start))
	if !n.IsUnknown() && !nonNegative(n) {
		n = n.Max(ir.Const(0))
	}
	return n.Add(ir.Const(step - 1)).FloorDiv(ir.Const(step))
}

// bound resolves one end of a range with a positive step, within dimension d.
func bound(d, x ir.Dim) ir.Dim {
	k, known := x.Known()
	switch {
	case known && k >= math.MaxInt32:
		return d
	case known && k <= math.MinInt32:
		return ir.Const(0)
	case known && k < 0:
		if x = d.Add(x); nonNegative(x) {
			return x
		}
		return x.Max(ir.Const(0))
	case !nonNegative(x): // it may be relative to the end
		return ir.Unknown
	case nonNegative(d.Sub(x)):
		return x
	}
	return x.Min(d)
}

// nonNegative reports whether d is never negative, as follows if only its constant is subtracted and d is not negative
// where all symbols are 1, their least value.
func nonNegative(d ir.Dim) bool {
	ones := map[string]int64{}
	for _, s := range d.Symbols() {
		ones[s] = 1
	}
	v, err := d.Eval(ones)
	s := strings.TrimRight(d.String(), "0123456789")
	return err == nil && v >= 0 && !strings.Contains(strings.TrimSuffix(s, "-"), "-")
}

func evalSlice(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "data")
	if err != nil {
		return nil, err
	}
	var p [5][]int64
	for i := 1; i < 5; i++ {
		if p[i], err = ints(c, in, i); err != nil {
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
		return nil, fmt.Errorf("%d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes),
			len(steps))
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
		shape[a] = tensor.Extent(n)
		if n > 1 { // a single element needs no step, and the step may be huge
			strides[a] *= int(steps[i])
		}
	}
	out, err := alloc(c, x.DType(), shape)
	if err != nil {
		return nil, err
	}
	run, rank := 1, len(shape) // length of runs of consecutive elements, and number of axes before them
	for rank > 0 && strides[rank-1] == run {
		rank--
		run *= shape[rank]
	}
	m, i := newMover(c, out, x), 0
	ops.Walk(c, shape[:rank], strides[:rank], offset, func(o int) {
		m.copy(i, o, run)
		i += run
	})
	return ops.One(out, nil)
}

// alongSlice shifts the steps by a constant start along the axis, and multiplies the stride by the step. Slices of
// other axes change nothing.
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

// moveSlice describes slices whose steps are 1.
func moveSlice(n *ir.Node) (pieces []ir.Piece, ok bool) {
	shape := n.In(0).Shape()
	starts, ok := ops.ConstInts(n.In(1))
	axes, okA := sliceAxes(n, len(starts))
	if !ok || !okA || len(axes) != len(starts) {
		return nil, false
	}
	from := make([]int, len(shape))
	for i, start := range starts {
		axis, err := ops.Axis(axes[i], len(shape))
		step, okStep := sliceStep(n, i)
		if err != nil || !okStep || step != 1 {
			return nil, false
		}
		size, known := shape[axis].Known()
		if !known && (start < 0 || start > math.MaxInt32) {
			return nil, false
		}
		if known {
			if start < 0 {
				start += size
			}
			start = min(max(start, 0), size)
		}
		from[axis] = int(start)
	}
	return []ir.Piece{{From: from}}, true
}
