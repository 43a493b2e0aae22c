package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// record is all that this backend knows of one operator, in its newest version: the kinds of implementation that it has, the
// conditions of each, its cost, and what passes ask about it. The file that has the operator's kernel registers it; where there
// are several kernels, that of the one over whole tensors. What an operator computes element by element stands apart: see
// elementwise.
//
// A kind whose make is nil is one that the operator does not have. Which of several runs is decided in one place: see
// preference.
type record struct {
	op string // its full name: "Conv", "essm.Scan"

	recurrence recurrenceKind
	row        rowKind
	windowed   windowedKind
	streaming  streamingKind
	tensor     tensorKind
	program    programKind
	// shapes says that the result follows from shapes: it is known before anything runs.
	shapes bool

	// fused says what the operator does in a fused elementwise kernel, where its row kernel is elementwise for some constants.
	fused fusedMaker
	// moves says how the operator moves elements, where it does nothing else.
	moves moves
	// flops estimates the work of one row; nil: some for each number of the result.
	flops func(s *lowering.Step) float64

	// strict operators are never written out as their bodies, which take inputs that the operators refuse, or gain nothing:
	// what no kernel fits is evaluated as ops defines it.
	strict bool
	// keeps says that outputs after the first are what a step graph keeps.
	keeps bool
}

// Kinds of implementation. Conditions that can be told before shapes are bound stand beside them: the inputs that constant
// lists are constants, as far as they are there; outputs, states aside, are declared as float32, but for kernels over whole
// tensors. What attributes, ranks and axes ask for, make finds, and gives nil; what shapes ask for, the maker that it gives.
type (
	// recurrenceKind carries state from one step of time to the next, or needs the whole sequence. A region forms around it.
	recurrenceKind struct {
		constant []int
		make     func(s *lowering.Step) recurrence
	}
	// rowKind treats each row (sample, step) by itself. It is part of a region.
	rowKind struct {
		constant []int
		make     func(s *lowering.Step) rowMaker
	}
	// windowedKind looks some way back and ahead along time. It is part of a region, where sequences become rows.
	windowedKind struct {
		constant []int
		make     func(s *lowering.Step) windowedMaker
		input    int  // the sequence: (samples, features, steps)
		rows     bool // or rather (samples, steps, features)
		pads     bool // zeros that a step before it adds around the sequence are as good as those that it pads with itself
	}
	// streamingKind goes step by step beside regions, or sums sequences up.
	streamingKind struct {
		constant []int
		make     func(s *lowering.Step) streamingMaker
	}
	// tensorKind computes whole tensors at once.
	tensorKind struct {
		constant []int
		make     func(s *lowering.Step) tensorMaker
		float32  bool // outputs are declared as float32, too
	}
)

// programKind says how the subgraphs of a node run, where the lowering makes programs of them.
type programKind int

const (
	noProgram   programKind = iota
	partOfGraph             // they become part of the graph that the node is in
	branches                // one of them runs
	iterations              // one runs many times
)

var (
	records  = map[string]*record{}
	noRecord = &record{}
)

// register enters records. It panics on a second one for the same operator: that is a mistake in this program.
func register(list ...record) {
	for _, r := range list {
		if records[r.op] != nil {
			panic("cpu: two records of operator " + r.op)
		}
		records[r.op] = &r
	}
}

// recordOf gives the record of an operator; one that says nothing where there is none, and for earlier versions.
func recordOf(op *ir.Op) *record {
	if ops.Newest(op) {
		return recordNamed(op)
	}
	return noRecord
}

// recordNamed gives the record of an operator in any version, for what they have in common.
func recordNamed(op *ir.Op) *record {
	if r := records[op.FullName()]; r != nil {
		return r
	}
	return noRecord
}

// states reports whether outputs after the first are states, which may be of any type.
func (r *record) states() bool { return r.recurrence.make != nil || r.keeps }
