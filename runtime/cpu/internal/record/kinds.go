package record

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// Kinds are the implementations that a step may have, judging by its operator's record, constants, attributes and
// declared types. The backend chooses one of them when shapes are bound.
type Kinds struct {
	Record  *Record
	Element *Elementwise // nil if the step is not elementwise on float32 numbers

	Row        RowMaker
	Recurrence Recurrence
	Windowed   WindowedMaker
	Streaming  StreamingMaker
	Tensor     TensorMaker

	// Set when shapes are bound, for a step on sequences as rows (see lowering.RowBackend).
	WindowedOp *WindowedOp

	Columns  *Columns // set if the step copies a range of its input's features
	Lowered  *LowStep // of a product with constant weights, if low precision was asked for
	Shared   *runtime.Constants
	Form     string       // the form asked for, of recurrences; "" for any
	Products tensor.DType // the precision asked for
}

var noKinds = &Kinds{Record: None}

// Of returns the kinds of a step; an empty value, not to be written to, for a step without any.
func Of(s *lowering.Step) *Kinds {
	if k, ok := s.Impl.(*Kinds); ok {
		return k
	}
	return noKinds
}

// Find sets the implementations that s may have.
func (k *Kinds) Find(s *lowering.Step) {
	r := k.Record
	if k.GivesFloat32(s) {
		k.Recurrence = made(s, r.Recurrence.Constant, r.Recurrence.Make)
		k.Row = made(s, r.Row.Constant, r.Row.Make)
		if e := k.Element; e != nil && k.Row == nil {
			k.Row = e.Row(s)
		}
		k.Windowed = made(s, r.Windowed.Constant, r.Windowed.Make)
		k.Streaming = made(s, r.Streaming.Constant, r.Streaming.Make)
	}
	if !r.Tensor.Float32 || k.GivesFloat32(s) {
		k.Tensor = made(s, r.Tensor.Constant, r.Tensor.Make)
	}
	if e := k.Element; e != nil && e.Tensor != nil {
		k.Tensor = FirstOf(k.Tensor, e.Tensor(s))
	}
}

// Found reports whether the step may have any implementation.
func (k *Kinds) Found() bool {
	return k.Recurrence != nil || k.Row != nil || k.Streaming != nil || k.Tensor != nil
}

// Fuses reports whether the step can be part of a fused kernel, shapes permitting.
func (k *Kinds) Fuses() bool {
	if k.Element != nil {
		return k.Row != nil && k.Element.Fuses()
	}
	return k.Row != nil && k.Record.Fused != nil
}

// GivesFloat32 reports whether the outputs of a step, except for states, are declared as float32 tensors.
func (k *Kinds) GivesFloat32(s *lowering.Step) bool {
	for i, v := range s.Node.Outputs {
		if v != nil && !lowering.IsFloat32(v.Type) && (i == 0 || !k.Record.States()) {
			return false
		}
	}
	return true
}

// Columns is a copy of consecutive features, from feature From on.
type Columns struct{ From int }
