package lowering

import "fmt"

// RowKind is the way in which a step works on sequences as rows.
type RowKind int8

const (
	// RowsAlone computes each row by itself: an elementwise operator whose constants lie along features.
	RowsAlone RowKind = iota
	// RowsWindow looks a bounded way back and ahead, as its operator does, moved by OnRows.Shift.
	RowsWindow
	// RowsShift copies the row that lies OnRows.Shift steps ahead; rows from outside of the sequence are zero.
	RowsShift
	// RowsSum sums up the rows so far.
	RowsSum
	// RowsCut copies the features from OnRows.From on.
	RowsCut
	// RowsJoin puts the features of all inputs side by side.
	RowsJoin
	// ToRows transposes (samples, features, steps) into rows.
	ToRows
	// FromRows transposes rows into (samples, features, steps).
	FromRows
)

// OnRows says how a step works on sequences as rows: tensors of (samples, steps, features).
type OnRows struct {
	Kind RowKind
	// Input is the input of the operator that the step looks along, of RowsWindow.
	Input int
	// Shift is the number of steps by which the step looks further ahead than its operator; further back where it
	// is negative.
	Shift int
	// Padded says that the step takes the place of one that adds zeros around the sequence, too: all that is looked
	// at before the first step and behind the last is zero, of RowsWindow.
	Padded bool
	// Exclusive sums leave out the row itself.
	Exclusive bool
	// From is the first feature.
	From int
	// Impl is what the backend keeps between RowBackend.Takes and RowBackend.Make.
	Impl any
}

// Does reports whether r is of the kind k; a nil r is of none.
func (r *OnRows) Does(k RowKind) bool { return r != nil && r.Kind == k }

// Transposes reports whether r brings a sequence from one layout into the other.
func (r *OnRows) Transposes() bool { return r.Does(ToRows) || r.Does(FromRows) }

// String names the kind for printed programs.
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

// RowBackend is what Binding.TimeMajor asks a backend. A backend that has rows computes ToRows, FromRows, RowsCut
// and RowsJoin of any sequences of float32 numbers; the others are asked for.
type RowBackend interface {
	// LeastSteps is the length of the shortest sequences that are worth to be brought into rows.
	LeastSteps() int
	// Looks reports whether the backend has anything that computes a step as a window along time, for some shapes.
	// It keeps the lowering from asking Takes in vain.
	Looks(s *Step) bool
	// Takes reports whether the backend computes a step in the way r. It is given the shapes, as rows, of the
	// sequences that are read and written; of RowsAlone those of all inputs: nil where one is absent, one axis for
	// a constant that lies along features. What it finds out it may keep in r.Impl.
	Takes(d *Binding, s *Step, r *OnRows, in [][]int, out []int) bool
	// Make is told of a step that works on rows, in the way s.Rows, and was taken. Step.Impl is that of the step of
	// the program that it stands for; the backend replaces it.
	Make(s *Step)
}
