package lowering

import "fmt"

// RowKind is a kind of step on sequences as rows.
type RowKind int8

const (
	// RowsAlone computes each row separately: an elementwise operator whose constants are per feature.
	RowsAlone RowKind = iota
	// RowsWindow reads a bounded number of rows before and after, as its operator does, moved by OnRows.Shift.
	RowsWindow
	// RowsShift copies the row OnRows.Shift steps ahead; rows outside the sequence are zero.
	RowsShift
	// RowsSum sums up the rows up to each one.
	RowsSum
	// RowsCut copies the features from OnRows.From on.
	RowsCut
	// RowsJoin concatenates the features of all inputs.
	RowsJoin
	// ToRows transposes (samples, features, steps) to rows.
	ToRows
	// FromRows transposes rows to (samples, features, steps).
	FromRows
)

// OnRows is how a step works on sequences as rows: tensors of (samples, steps, features).
type OnRows struct {
	Kind RowKind
	// Input is the index of the operator's input that a RowsWindow looks along.
	Input int
	// Shift is the number of steps by which a RowsWindow looks further ahead than its operator, and by which
	// RowsShift moves; negative for further back.
	Shift int
	// Padded is set if a RowsWindow includes a Pad before it: the steps before the first and after the last are
	// zeros, and the operator's own pads are ignored.
	Padded bool
	// Exclusive is set if a RowsSum excludes the row itself.
	Exclusive bool
	// From is the first feature of a RowsCut.
	From int
	// Impl is for the backend, from RowBackend.Takes to RowBackend.Make.
	Impl any
}

// Does reports whether r is of kind k. It is false for a nil r.
func (r *OnRows) Does(k RowKind) bool { return r != nil && r.Kind == k }

// Transposes reports whether r is ToRows or FromRows.
func (r *OnRows) Transposes() bool { return r.Does(ToRows) || r.Does(FromRows) }

// String returns the text of r in printed programs.
func (r *OnRows) String() string {
	switch r.Kind {
	case RowsWindow:
		if r.Shift != 0 {
			return fmt.Sprintf("on rows, moved by %d", r.Shift)
		}
	case RowsShift:
		return fmt.Sprintf("rows moved by %d", r.Shift)
	case RowsCut:
		return fmt.Sprintf("features from %d", r.From)
	case ToRows:
		return "to rows"
	case FromRows:
		return "from rows"
	}
	return "on rows"
}

// RowBackend is a backend that computes sequences as rows, for Binding.TimeMajor. It must support ToRows, FromRows,
// RowsCut and RowsJoin for all float32 sequences; it can decline the other kinds.
type RowBackend interface {
	// LeastSteps returns the minimum length of sequences for which rows pay.
	LeastSteps() int
	// Looks reports whether the backend has a RowsWindow for the operator of s, for some shapes.
	Looks(s *Step) bool
	// Takes reports whether the backend computes s as r. The shapes in and out are those of the sequences as rows.
	// For RowsAlone, in has an element per input: nil if it is absent, and a single axis for a constant along the
	// features. Takes may set r.Impl.
	Takes(d *Binding, s *Step, r *OnRows, in [][]int, out []int) bool
	// Make prepares a new step that works on rows: it sets s.Impl, which so far is the original step's.
	Make(s *Step)
}
