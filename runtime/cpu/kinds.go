package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// kinds are the implementations that a step has, by what is known before shapes are bound: its operator's record, constants,
// attributes and declared types. Which of them runs is decided when shapes are bound.
type kinds struct {
	record  *record
	element *elementwise // nil where the operator is none

	row        rowMaker
	recurrence recurrence
	windowed   windowedMaker
	streaming  streamingMaker
	tensor     tensorMaker

	// What is made when shapes are bound, of a step that works on sequences as rows (see timeMajor).
	windowedOp *windowedOp
	sums       *sums
	transpose  transpose

	columns  *columns // it copies some of its input's features
	lowered  *lowStep // of a product with constant weights, where low precision was asked for
	shared   *runtime.Constants
	form     string       // of recurrences, the one asked for; empty: any
	products tensor.DType // the precision asked for
}

var noKinds = &kinds{record: noRecord}

// of gives the kinds of a step; of one that has none, what must not be written to.
func of(s *lowering.Step) *kinds {
	if k, ok := s.Impl.(*kinds); ok {
		return k
	}
	return noKinds
}

// find makes the implementations of a step.
func (k *kinds) find(s *lowering.Step) {
	r := k.record
	if k.float32(s) {
		k.recurrence = made(s, r.recurrence.constant, r.recurrence.make)
		k.row = made(s, r.row.constant, r.row.make)
		if e := k.element; e != nil && e.row != nil && k.row == nil {
			k.row = e.row(s)
		}
		k.windowed = made(s, r.windowed.constant, r.windowed.make)
		k.streaming = made(s, r.streaming.constant, r.streaming.make)
	}
	if !r.tensor.float32 || k.float32(s) {
		k.tensor = made(s, r.tensor.constant, r.tensor.make)
	}
	if e := k.element; e != nil && e.tensor != nil {
		k.tensor = firstOf(k.tensor, e.tensor(s))
	}
}

// found reports whether there is any.
func (k *kinds) found() bool {
	return k.recurrence != nil || k.row != nil || k.streaming != nil || k.tensor != nil
}

// fused says what the step does in a fused kernel; nil where it cannot be part of one.
func (k *kinds) fused() fusedMaker {
	if k.element != nil {
		return k.element.fused
	}
	return k.record.fused
}

// float32 reports whether the outputs of a step are declared as float32 tensors, states aside.
func (k *kinds) float32(s *lowering.Step) bool {
	for i, v := range s.Node.Outputs {
		if v != nil && !lowering.IsFloat32(v.Type) && (i == 0 || !k.record.states()) {
			return false
		}
	}
	return true
}

// columns says that a step copies consecutive features of its input, from one on.
type columns struct{ from int }
