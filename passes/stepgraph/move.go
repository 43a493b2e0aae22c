package stepgraph

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// pad shifts a sequence: step t of the result is step t-begin of the input. Pads before the first step reduce the
// input's lag.
func (s *stepper) pad(n *ir.Node) error {
	v := n.In(0)
	f := s.flowOf(v)
	rank := len(s.get(v).Shape())
	pads, ok := ops.ConstInts(n.In(1))
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	if n.In(3) != nil {
		given, known := ops.ConstInts(n.In(3))
		axes, ok = given, ok && known
	}
	value := 0.0
	if c := n.In(2); c != nil {
		x, err := []float64(nil), error(nil)
		if c.Const != nil {
			x, err = c.Const.Float64s()
		}
		if ok = ok && err == nil && len(x) == 1; ok {
			value = x[0]
		}
	}
	if !ok || f.kind != Sequence || len(pads) != 2*len(axes) {
		return &BlockedError{n, "has pads of unknown sizes"}
	}
	var begin, end int64
	pads = slices.Clone(pads)
	for i, ax := range axes {
		if a, err := ops.Axis(ax, rank); err == nil && a == f.axis {
			begin, end = pads[i], pads[i+len(axes)]
			pads[i], pads[i+len(axes)] = 0, 0
		}
	}
	if n.Attrs.Str("mode", "constant") != "constant" || max(begin, end, -begin, -end) > math.MaxInt32 {
		return s.why(n, ir.Fact{Global: true})
	}
	left := begin > 0 && (f.delay > 0 || value != 0) // before the first step ever fed there are zeros
	if begin > f.delay {
		s.lag(v, begin-f.delay)
		f = s.flowOf(v)
	}
	x := s.get(v)
	if left || end > 0 && s.end != nil {
		x = s.mask(v, x, 0, value, end > 0)
	}
	f.delay -= begin
	f.offset += f.rate * (begin + end)
	if !slices.ContainsFunc(pads, func(p int64) bool { return p != 0 }) {
		s.set(n.Out(0), x, f)
		return s.settle(n.Out(0))
	}
	args := []*ir.Value{x, s.Ints(pads...), s.get(n.In(2)), s.get(n.In(3))}
	if err := s.keep(n, args[:max(2, len(n.Inputs))], []flow{f}); err != nil {
		return err
	}
	return s.settle(n.Out(0))
}

// settle delays a value from which the last steps were cut until it is certain that its steps are not among those.
func (s *stepper) settle(v *ir.Value) error {
	if f := s.flowOf(v); f.delay*f.rate+f.offset < 0 {
		s.lag(v, -floorDiv(f.delay*f.rate+f.offset, f.rate))
	}
	return s.Err()
}

// cut takes a range of steps with a stride: step t of the result is step start+t*stride of the input.
func (s *stepper) cut(n *ir.Node) error {
	v := n.In(0)
	f := s.flowOf(v)
	shape := s.get(v).Shape()
	starts, ok := ops.ConstInts(n.In(1))
	ends, okEnds := ops.DimsOf(n.In(2))
	axes := make([]int64, len(starts))
	for i := range axes {
		axes[i] = int64(i)
	}
	if n.In(3) != nil {
		given, known := ops.ConstInts(n.In(3))
		axes, ok = given, ok && known
	}
	strides := slices.Repeat([]int64{1}, len(starts))
	if n.In(4) != nil {
		given, known := ops.ConstInts(n.In(4))
		strides, ok = given, ok && known
	}
	if !ok || !okEnds || f.kind != Sequence || len(ends) != len(starts) || len(axes) != len(starts) ||
		len(strides) != len(starts) {
		return &BlockedError{n, "takes an unknown range of steps"}
	}
	starts, to := slices.Clone(starts), make([]int64, len(ends))
	for i, ax := range axes {
		a, err := ops.Axis(ax, len(shape))
		if err != nil {
			return err
		}
		k, known := ends[i].Known()
		if a != f.axis {
			if to[i] = k; !known {
				return &BlockedError{n, "takes an unknown range"}
			}
			continue
		}
		short := int64(0)
		switch { // the number of steps between the end of the range and the last step
		case known && k < 0:
			short = -k
		case known && k < math.MaxInt32:
			return &BlockedError{n, "ends at a step that is counted from the first"}
		case !known:
			if d, fixed := shape[a].Sub(ends[i]).Known(); !fixed || d < 0 {
				return &BlockedError{n, "takes an unknown range of steps"}
			} else {
				short = d
			}
		}
		start, stride := starts[i], strides[i]
		if start < 0 || stride < 1 || max(start, stride, short) > math.MaxInt32 {
			return s.why(n, ir.Fact{Global: true})
		}
		at := f.delay + start
		starts[i], to[i] = at%stride, sliceEnd
		f.delay = at / stride
		f.offset += f.rate * (stride - 1 - start - short)
		f.rate *= stride
	}
	whole := !slices.ContainsFunc(starts, func(k int64) bool { return k != 0 }) &&
		!slices.ContainsFunc(to, func(k int64) bool { return k < math.MaxInt32 })
	if whole && !slices.ContainsFunc(strides, func(k int64) bool { return k != 1 }) {
		s.set(n.Out(0), s.get(v), f)
		return s.settle(n.Out(0))
	}
	ints := func(v []int64) *ir.Value { return s.Const("ints", tensor.FromSlice(v, len(v))) }
	if err := s.keep(n, []*ir.Value{s.get(v), ints(starts), ints(to), ints(axes), ints(strides)},
		[]flow{f}); err != nil {
		return err
	}
	return s.settle(n.Out(0))
}
