package record

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// Kinds are the implementations that a step has, by what is known before shapes are bound: its operator's record, constants,
// attributes and declared types. Which of them runs is decided when shapes are bound.
type Kinds struct {
	Record  *Record
	Element *Elementwise // nil where the operator is none

	Row        RowMaker
	Recurrence Recurrence
	Windowed   WindowedMaker
	Streaming  StreamingMaker
	Tensor     TensorMaker

	// What is made when shapes are bound, of a step that works on sequences as rows (see timeMajor).
	WindowedOp *WindowedOp
	Sums       *Sums
	Transpose  Transpose

	Columns  *Columns // it copies some of its input's features
	Lowered  *LowStep // of a product with constant weights, where low precision was asked for
	Shared   *runtime.Constants
	Form     string       // of recurrences, the one asked for; empty: any
	Products tensor.DType // the precision asked for
}

var noKinds = &Kinds{Record: None}

// Of gives the kinds of a step; of one that has none, what must not be written to.
func Of(s *lowering.Step) *Kinds {
	if k, ok := s.Impl.(*Kinds); ok {
		return k
	}
	return noKinds
}

// Find makes the implementations of a step.
func (k *Kinds) Find(s *lowering.Step) {
	r := k.Record
	if k.GivesFloat32(s) {
		k.Recurrence = made(s, r.Recurrence.Constant, r.Recurrence.Make)
		k.Row = made(s, r.Row.Constant, r.Row.Make)
		if e := k.Element; e != nil && e.Row != nil && k.Row == nil {
			k.Row = e.Row(s)
		}
		k.Windowed = made(s, r.Windowed.Constant, r.Windowed.Make)
		k.Streaming = made(s, r.Streaming.Constant, r.Streaming.Make)
	}
	if !r.Tensor.Float32 || k.GivesFloat32(s) {
		k.Tensor = made(s, r.Tensor.Constant, r.Tensor.Make)
	}
	if e := k.Element; e != nil && e.Tensor != nil {
		k.Tensor = firstOf(k.Tensor, e.Tensor(s))
	}
}

// Found reports whether there is any.
func (k *Kinds) Found() bool {
	return k.Recurrence != nil || k.Row != nil || k.Streaming != nil || k.Tensor != nil
}

// Fused says what the step does in a fused kernel; nil where it cannot be part of one.
func (k *Kinds) Fused() FusedMaker {
	if k.Element != nil {
		return k.Element.Fused
	}
	return k.Record.Fused
}

// GivesFloat32 reports whether the outputs of a step are declared as float32 tensors, states aside.
func (k *Kinds) GivesFloat32(s *lowering.Step) bool {
	for i, v := range s.Node.Outputs {
		if v != nil && !lowering.IsFloat32(v.Type) && (i == 0 || !k.Record.States()) {
			return false
		}
	}
	return true
}

// Columns says that a step copies consecutive features of its input, from one on.
type Columns struct{ From int }
