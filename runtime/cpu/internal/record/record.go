package record

import (
	"reflect"
	"sync/atomic"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

// Record describes how this backend runs one operator, in its newest version: the kinds of implementation that it
// has, their conditions, and its cost. The file of a kernel registers the kind that it implements, and what follows
// from that; Register joins what several files state. The kernels of elementwise operators come from their
// expressions instead: see Elementwise.
//
// An operator does not have the kinds whose Make is nil. Package cpu defines the order in which it prefers kinds.
type Record struct {
	Op string // full name of the operator: "Conv", "essm.Scan"

	Recurrence RecurrenceKind
	Row        RowKind
	Windowed   WindowedKind
	Streaming  StreamingKind
	Tensor     TensorKind
	Program    programKind

	// Fused returns the operator's step in a fused elementwise kernel, for row operators that are elementwise with some
	// constants; nil for others.
	Fused FusedMaker
	// Flops estimates the work of one row, in floating-point operations; nil for a few per number of the result.
	Flops func(s *lowering.Step) float64

	// Whole operators are never replaced by their bodies, by which this backend gains nothing. Nodes that no kernel fits are
	// evaluated as package ops defines them.
	Whole bool
	// Numbers is why a kernel takes inputs only as constants, by whose numbers it is recognised; "" if there is none.
	// Over settled inputs the operator is computed otherwise, and Explain says so.
	Numbers string
	// Keeps: outputs after the first are states that a step graph keeps.
	Keeps bool
}

// Kinds of implementation, with their conditions. The inputs in Constant must be constant or settled if they are
// present. Make decides by their types and shapes only, and keeps what follows from their content by Keep, so that it is
// computed again when the content of settled ones has been replaced.
// Outputs, except for states and for those of tensor kernels, must be declared as float32. Make returns nil if
// attributes, ranks or axes do not fit; the maker that it returns returns nil if shapes do not fit.
type (
	// RecurrenceKind carries a state from one step of time to the next, or needs the whole sequence. It is part of a
	// region.
	RecurrenceKind struct {
		Constant []int
		Make     func(s *lowering.Step) Recurrence
	}
	// RowKind computes each row (sample, step) by itself. It is part of a region.
	RowKind struct {
		Constant []int
		Make     func(s *lowering.Step) RowMaker
	}
	// WindowedKind looks a bounded number of steps back and ahead along time. It is part of a region, if sequences
	// become rows.
	WindowedKind struct {
		Constant []int
		Make     func(s *lowering.Step) WindowedMaker
		Input    int  // index of the sequence: (samples, features, steps)
		Rows     bool // the sequence is (samples, steps, features)
		Pads     bool // zeros added around the sequence by a step before it are equal to pads of its own
	}
	// StreamingKind goes step by step outside of regions, or sums sequences up.
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

// programKind is the way in which the subgraphs of a node run as programs of the lowering.
type programKind int

const (
	NoProgram   programKind = iota
	PartOfGraph             // they become part of the graph that holds the node
	Branches                // one of them runs
	Iterations              // one runs many times
)

var (
	Records = map[string]*Record{}
	None    = &Record{}
)

// Register adds records, each to what other files have registered for its operator. It panics if a field is set
// twice, which is an error of this program.
func Register(list ...Record) {
	for _, r := range list {
		if twice := Add(r); twice != "" {
			panic("cpu: two files register " + twice + " of operator " + r.Op)
		}
	}
}

// Add is Register for one record. It returns the name of a field that is set already, and then adds nothing.
func Add(r Record) (twice string) {
	old := Records[r.Op]
	if old == nil {
		Records[r.Op] = &r
		return ""
	}
	to, from := reflect.ValueOf(old).Elem(), reflect.ValueOf(r)
	joined := *old
	into := reflect.ValueOf(&joined).Elem()
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		switch {
		case name == "Op" || from.Field(i).IsZero():
		case to.Field(i).IsZero():
			into.Field(i).Set(from.Field(i))
		default:
			return name
		}
	}
	*old = joined
	return ""
}

// Sealed is set when the first graph is compiled: records do not change from then on.
var Sealed atomic.Bool

// For returns the record of an operator in its newest version; None for earlier versions and for operators without a
// record.
func For(op *ir.Op) *Record {
	if ops.Newest(op) {
		return Named(op)
	}
	return None
}

// Named returns the record of an operator in any version, for properties that all versions share; None if there is
// none.
func Named(op *ir.Op) *Record {
	if r := Records[op.FullName()]; r != nil {
		return r
	}
	return None
}

// States reports whether outputs after the first are states, which may have any type.
func (r *Record) States() bool { return r.Recurrence.Make != nil || r.Keeps }
