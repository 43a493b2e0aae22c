package record

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// Record is all that this backend knows of one operator, in its newest version: the kinds of implementation that it has, the
// conditions of each, its cost, and what passes ask about it. The file that has the operator's kernel registers it; where there
// are several kernels, that of the one over whole tensors. What an operator computes element by element stands apart: see
// elementwise.
//
// A kind whose make is nil is one that the operator does not have. Which of several runs is decided in one place: see
// preference.
type Record struct {
	Op string // its full name: "Conv", "essm.Scan"

	Recurrence RecurrenceKind
	Row        RowKind
	Windowed   WindowedKind
	Streaming  StreamingKind
	Tensor     TensorKind
	Program    programKind
	// Shapes says that the result follows from shapes: it is known before anything runs.
	Shapes bool

	// Fused says what the operator does in a fused elementwise kernel, where its row kernel is elementwise for some constants.
	Fused FusedMaker
	// Moves says how the operator moves elements, where it does nothing else.
	Moves Moves
	// Flops estimates the work of one row; nil: some for each number of the result.
	Flops func(s *lowering.Step) float64

	// Strict operators are never written out as their bodies, which take inputs that the operators refuse, or gain nothing:
	// what no kernel fits is evaluated as ops defines it.
	Strict bool
	// Keeps says that outputs after the first are what a step graph keeps.
	Keeps bool
}

// Kinds of implementation. Conditions that can be told before shapes are bound stand beside them: the inputs that constant
// lists are constants, as far as they are there; outputs, states aside, are declared as float32, but for kernels over whole
// tensors. What attributes, ranks and axes ask for, make finds, and gives nil; what shapes ask for, the maker that it gives.
type (
	// RecurrenceKind carries state from one step of time to the next, or needs the whole sequence. A region forms around it.
	RecurrenceKind struct {
		Constant []int
		Make     func(s *lowering.Step) Recurrence
	}
	// RowKind treats each row (sample, step) by itself. It is part of a region.
	RowKind struct {
		Constant []int
		Make     func(s *lowering.Step) RowMaker
	}
	// WindowedKind looks some way back and ahead along time. It is part of a region, where sequences become rows.
	WindowedKind struct {
		Constant []int
		Make     func(s *lowering.Step) WindowedMaker
		Input    int  // the sequence: (samples, features, steps)
		Rows     bool // or rather (samples, steps, features)
		Pads     bool // zeros that a step before it adds around the sequence are as good as those that it pads with itself
	}
	// StreamingKind goes step by step beside regions, or sums sequences up.
	StreamingKind struct {
		Constant []int
		Make     func(s *lowering.Step) StreamingMaker
	}
	// TensorKind computes whole tensors at once.
	TensorKind struct {
		Constant []int
		Make     func(s *lowering.Step) TensorMaker
		Float32  bool // outputs are declared as float32, too
	}
)

// programKind says how the subgraphs of a node run, where the lowering makes programs of them.
type programKind int

const (
	NoProgram   programKind = iota
	PartOfGraph             // they become part of the graph that the node is in
	Branches                // one of them runs
	Iterations              // one runs many times
)

var (
	Records = map[string]*Record{}
	None    = &Record{}
)

// Register enters records. It panics on a second one for the same operator: that is a mistake in this program.
func Register(list ...Record) {
	for _, r := range list {
		if Records[r.Op] != nil {
			panic("cpu: two records of operator " + r.Op)
		}
		Records[r.Op] = &r
	}
}

// For gives the record of an operator; one that says nothing where there is none, and for earlier versions.
func For(op *ir.Op) *Record {
	if ops.Newest(op) {
		return Named(op)
	}
	return None
}

// Named gives the record of an operator in any version, for what they have in common.
func Named(op *ir.Op) *Record {
	if r := Records[op.FullName()]; r != nil {
		return r
	}
	return None
}

// States reports whether outputs after the first may be of any type.
func (r *Record) States() bool { return r.Recurrence.Make != nil || r.Keeps }
