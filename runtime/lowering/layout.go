package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// A graph says in which layout each sequence lies, and files say it variously: convolutions want (samples,
// features, steps), products (samples, steps, features), with a Transpose in between; a look back is a Pad before a
// convolution, or a Slice behind it that cuts off the steps ahead; a shift is a Pad and a Slice. A backend that
// computes tiles of steps wants one layout for all: rows, with the features of a step side by side.
//
// Binding.TimeMajor chooses the layout of each sequence of three axes along the time that the graph declares:
//
//   - Each step gets a form on rows, where it has one (layout_form.go). This follows from what is known of
//     operators: elementwise ones (ir.Op.Element) do not care; of those that only move elements (ir.Op.Moves), a
//     transposition vanishes, and what moves steps, or features, does so on rows, too; a running sum (ir.Op.Sums)
//     goes along rows; anything else with one sequence may look along it as a window. A Pad before a window and a
//     Slice behind it become part of the window. The backend is asked whether it computes such a form (RowBackend).
//   - Sequences on which forms agree go together: all of them become rows, or none does. They do where windows and
//     sums pay for the transposes at the borders, which bring a sequence from the layout of the graph into rows, or
//     back (layout_choose.go).
//   - The steps are made anew: forms take the place of steps, what only transposed is left out, and a transpose
//     stands wherever a sequence is needed in both layouts (layout_build.go).
//
// The values of all sequences stay those of the graph, bit by bit where a form computes as its operator does, so
// nothing of this is seen from outside.

// layouts is a binding on its way to sequences as rows.
type layouts struct {
	d       *Binding
	backend RowBackend
	made    map[*Value]*Step
	forms   map[*Step]*form
	gone    map[*Step]bool  // steps that are part of others
	flip    map[*Value]bool // sequences of (samples, features, steps) that become rows
	pieces  map[*Step][]ir.Piece

	more  []*Value // besides those of the program
	facts []ir.Fact
	steps []*Step
	rows  map[*Value]*Value // of flip: the value that has the rows
}

// form is a step as it works on rows.
type form struct {
	OnRows
	in    []*Value // the sequences that it reads; nil for other inputs
	out   *Value
	parts []cut    // of RowsCut: what it writes, and from where
	alias bool     // nothing is left to do
	next  *Step    // a step behind that is part of it
	flips []*Value // of all these sequences, those that do not lie as rows
}

// cut is some features of a sequence, from one on.
type cut struct {
	out  *Value
	from int
}

// looks reports whether the step looks back or ahead along time.
func (f *form) looks() bool {
	return !f.alias && (f.Kind == RowsWindow || f.Kind == RowsShift || f.Kind == RowsSum)
}

// TimeMajor returns d with sequences as rows, where the graph declares its time and steps look along it, and d
// itself where nothing is to be gained. The steps that work on rows say so (Step.Rows); what they compute is what
// the steps of d compute, by way of more values.
func (d *Binding) TimeMajor(b RowBackend) *Binding {
	if !d.Program.Timed() || d.err != nil {
		return d
	}
	t := &layouts{d: d, backend: b}
	if !slices.ContainsFunc(d.Program.Steps, t.looks) {
		return d
	}
	t.made, t.forms, t.gone = map[*Value]*Step{}, map[*Step]*form{}, map[*Step]bool{}
	t.flip, t.pieces, t.rows = map[*Value]bool{}, map[*Step][]ir.Piece{}, map[*Value]*Value{}
	for _, s := range d.Program.Steps {
		for _, v := range s.Out {
			if v != nil {
				t.made[v] = s
			}
		}
	}
	for _, s := range d.Program.Steps {
		if !d.Dead(s) && !t.gone[s] && len(s.Captures) == 0 {
			if f := t.form(s); f != nil {
				t.forms[s] = f
			}
		}
	}
	if !t.choose() {
		return d
	}
	return t.build()
}

// looks reports whether a step may look along time on rows.
func (t *layouts) looks(s *Step) bool {
	switch op := s.Node.Op; {
	case len(s.Out) == 0 || t.d.timeAxis(s.Out[0]) == 0 || op.Element != nil:
		return false
	case op.Moves != nil:
		return s.Alone.Back != 0 || s.Alone.Ahead != 0
	case op.Sums != nil:
		return true
	}
	return t.backend.Looks(s)
}

// timeAxis returns the axis of time of a float32 sequence of samples: 1, or 2 of 3; 0 for other values.
func (d *Binding) timeAxis(v *Value) int {
	if v == nil || v.ID >= len(d.Program.Values) || !d.IsFloat32(v) || d.Constant(v) != nil {
		return 0
	}
	fact, shape := d.Program.Fact(v), d.Shape(v)
	axis, rank := fact.Axis, len(shape)
	switch {
	case fact.Constant() || fact.Global:
		return 0
	case axis == 1 && rank >= 2 || axis == 2 && rank == 3:
		if shape[0] > 0 && shape[axis] > 0 {
			return axis
		}
	}
	return 0
}

// length returns the number of steps of a sequence.
func (t *layouts) length(v *Value) int { return t.d.Shape(v)[t.d.timeAxis(v)] }

// asRowShape returns the shape of a sequence of three axes as rows.
func (t *layouts) asRowShape(v *Value) []int {
	shape := t.d.Shape(v)
	if t.d.timeAxis(v) == 2 {
		return []int{shape[0], shape[2], shape[1]}
	}
	return shape
}

// moves returns the pieces that the first output of a step consists of, constants of zeros left out; nil where the
// step does not only move elements.
func (t *layouts) moves(s *Step) []ir.Piece {
	if s.Node.Op.Moves == nil {
		return nil
	}
	pieces, found := t.pieces[s]
	if found {
		return pieces
	}
	pieces, ok := ops.Moves(s.Node) // which the graph's types may tell as well as those that are bound
	if !ok {
		if n := t.d.Concrete(s); n != nil {
			pieces, _ = ops.Moves(n)
		}
	}
	pieces = slices.DeleteFunc(pieces, func(p ir.Piece) bool {
		k := t.d.Constant(s.In[p.Input])
		return k != nil && zeros(k)
	})
	t.pieces[s] = pieces
	return pieces
}

// sums returns what a step sums up; ok is false where it does something else.
func (d *Binding) sums(s *Step) (sum ir.RunningSum, ok bool) {
	if sum, ok = ops.Sums(s.Node); !ok {
		if n := d.Concrete(s); n != nil {
			return ops.Sums(n)
		}
	}
	return sum, ok
}

// zeros reports whether a tensor holds nothing but zeros.
func zeros(k *tensor.Tensor) bool {
	v, err := k.Float64s()
	return err == nil && !slices.ContainsFunc(v, func(x float64) bool { return x != 0 })
}
