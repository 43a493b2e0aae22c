package streaming

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// stateSlot is the slot of a state in one of two types, or absent.
type stateSlot struct {
	wide  lowering.Slot[float64]
	short lowering.Slot[float32]
}

// stateOf returns the slot of a state; false if its shape or type do not fit.
func stateOf(d *lowering.Binding, v *lowering.Value, shape []int) (s stateSlot, ok bool) {
	if v == nil || d.Missing(v) || !d.Leaves(v) && len(d.Readers(v)) == 0 { // values without readers have no slot
		return s, true
	}
	if !slices.Equal(d.Shape(v), shape) {
		return s, false
	}
	switch d.DType(v) {
	case tensor.Float64:
		s.wide = lowering.SlotOf[float64](d, v)
	case tensor.Float32:
		s.short = lowering.SlotOf[float32](d, v)
	default:
		return s, false
	}
	return s, true
}

func (s stateSlot) absent() bool { return s.wide.Absent() && s.short.Absent() }

func (s stateSlot) get(f *lowering.Frame, i int) float64 {
	if !s.wide.Absent() {
		return s.wide.In(f)[i]
	}
	return float64(s.short.In(f)[i])
}

func (s stateSlot) set(f *lowering.Frame, i int, v float64) {
	if !s.wide.Absent() {
		s.wide.In(f)[i] = v
	} else {
		s.short.In(f)[i] = float32(v)
	}
}
