package tensors

import "github.com/essmc/essmc/runtime/lowering"

// unary has the slots of input 0 and output 0 of a step, which are float32.
type unary struct{ x, y lowering.Slot[float32] }

func UnaryOf(d *lowering.Binding, s *lowering.Step) unary {
	return unary{lowering.Input[float32](d, s, 0), lowering.Output[float32](d, s, 0)}
}

// In returns the elements of a run.
func (u *unary) In(f *lowering.Frame) (x, y []float32) { return u.x.In(f), u.y.In(f) }
