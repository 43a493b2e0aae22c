package record

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// moves is what an operator does that computes nothing but moves elements, or sums them up along an axis: at most one of these.
// Where the axis is that of time, or of features, the layout of sequences may be chosen (see timeMajor), and a part of
// features read from where it is (see columns).
type Moves struct {
	// join gives the axis along which a step puts tensors of so many axes side by side; split that along which it cuts one up.
	Join, Split func(s *lowering.Step, rank int) (axis int, ok bool)
	// cut gives the axis along which it takes consecutive places, and the first.
	Cut func(d *lowering.Binding, s *lowering.Step) (axis, from int, ok bool)
	// pad gives the zeros that it adds before and behind what is there along each axis.
	Pad func(d *lowering.Binding, s *lowering.Step) (before, behind []int, ok bool)
	// permute gives its order of the input's axes; nil: the reverse.
	Permute func(s *lowering.Step) []int64
	// sum gives the axis of a running sum from the first place on, and whether each sum leaves its own place out.
	Sum func(d *lowering.Binding, s *lowering.Step) (axis int, exclusive, ok bool)
}

// axisOf reads the attribute axis.
func AxisOf(s *lowering.Step, rank int) (axis int, ok bool) {
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", 0), rank)
	return axis, err == nil
}

// permutation reads the attribute perm.
func Permutation(s *lowering.Step) []int64 { return s.Node.Attrs.Ints("perm", nil) }

// consecutivePlaces reads a Slice that takes consecutive places along one axis.
func ConsecutivePlaces(d *lowering.Binding, s *lowering.Step) (axis, from int, ok bool) {
	shape := d.ShapeOf(s, 0)
	starts, ok := d.Ints(s, 1)
	if !ok || len(starts) != 1 {
		return 0, 0, false
	}
	if !s.Absent(3) {
		axes, ok := d.Ints(s, 3)
		if !ok || len(axes) != 1 {
			return 0, 0, false
		}
		var err error
		if axis, err = ops.Axis(axes[0], len(shape)); err != nil {
			return 0, 0, false
		}
	}
	if !s.Absent(4) {
		if by, ok := d.Ints(s, 4); !ok || len(by) != 1 || by[0] != 1 {
			return 0, 0, false
		}
	}
	n, first := int64(shape[axis]), starts[0]
	if first < 0 {
		first += n
	}
	return axis, int(max(0, min(first, n))), true
}

// zerosAround reads a Pad that adds zeros.
func ZerosAround(d *lowering.Binding, s *lowering.Step) (before, behind []int, ok bool) {
	if s.Node.Attrs.Str("mode", "constant") != "constant" {
		return nil, nil, false
	}
	rank := len(d.ShapeOf(s, 0))
	pads, ok := d.Ints(s, 1)
	if !ok {
		return nil, nil, false
	}
	if !s.Absent(2) {
		fill := d.Constant(s.In[2])
		if fill == nil || !Zeros(fill) {
			return nil, nil, false
		}
	}
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	if !s.Absent(3) {
		if axes, ok = d.Ints(s, 3); !ok {
			return nil, nil, false
		}
	}
	if len(pads) != 2*len(axes) {
		return nil, nil, false
	}
	before, behind = make([]int, rank), make([]int, rank)
	for i, a := range axes {
		from, to := int(pads[i]), int(pads[len(axes)+i])
		axis, err := ops.Axis(a, rank)
		if err != nil || from < 0 || to < 0 {
			return nil, nil, false
		}
		before[axis] += from
		behind[axis] += to
	}
	return before, behind, true
}

// zeros reports whether a tensor holds nothing else.
func Zeros(k *tensor.Tensor) bool {
	v, err := k.Float64s()
	return err == nil && !slices.ContainsFunc(v, func(x float64) bool { return x != 0 })
}

// runningSum reads a CumSum that goes forward.
func RunningSum(d *lowering.Binding, s *lowering.Step) (axis int, exclusive, ok bool) {
	at, ok := d.Ints(s, 1)
	if !ok || len(at) != 1 || ops.Int(s.Node, "reverse") != 0 {
		return 0, false, false
	}
	axis, err := ops.Axis(at[0], len(d.ShapeOf(s, 0)))
	return axis, ops.Int(s.Node, "exclusive") != 0, err == nil
}
