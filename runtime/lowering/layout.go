package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// A graph determines the layout of each sequence, and exporters differ in it. Convolutions expect (samples,
// features, steps), products expect (samples, steps, features), and there are Transposes between them. A look back
// is a Pad before a convolution, or a Slice after it that removes the steps ahead. A shift is a Pad and a Slice. A
// backend that computes tiles of steps needs one layout for all of them: rows, with the features of a step
// contiguous.
//
// TimeMajor chooses the layout of each sequence of three axes, in three parts:
//
//   - Forms (layout_form.go). A form is a way to compute a step on rows. Elementwise operators (ir.Op.Element) work
//     in any layout. Among the operators that only move elements (ir.Op.Moves), transpositions of the last two axes
//     disappear, and those that move steps or features do so on rows. A running sum (ir.Op.Sums) adds up rows. Any
//     other step with a single sequence may be a window along time, and includes a Pad before it and a Slice
//     after it. The backend decides whether it computes a form (RowBackend).
//   - The choice (layout_choose.go). A form connects the sequences that it reads and writes. Connected sequences
//     become rows together, if their windows and sums are enough to pay for the transposes at the borders.
//   - The new steps (layout_build.go). Forms replace steps, steps that only transposed disappear, and a
//     transpose is added for each sequence that is needed in both layouts.
//
// The values of sequences stay the same as in the graph, so nothing of this is visible from outside.

// layouts is the state of TimeMajor for one binding.
type layouts struct {
	d       *Binding
	backend RowBackend
	made    map[*Value]*Step // the step that computes a value
	forms   map[*Step]*form
	gone    map[*Step]bool  // steps that are part of other steps' forms
	flip    map[*Value]bool // sequences of (samples, features, steps) that become rows
	pieces  map[*Step][]ir.Piece

	more  []*Value // new values
	facts []ir.Fact
	steps []*Step
	rows  map[*Value]*Value // the rows of a sequence in flip
}

// form is a way to compute a step on rows.
type form struct {
	OnRows
	in    []*Value // the sequences that it reads; nil for other inputs
	out   *Value
	parts []cut    // the outputs of RowsCut
	alias bool     // out has the rows of in, so there is nothing to compute
	next  *Step    // a later step that is part of the form
	flips []*Value // the sequences among in, out and parts that are not rows in the graph
}

// cut is an output with consecutive features, from the given one on.
type cut struct {
	out  *Value
	from int
}

// looks reports whether the form reads other steps of time than the one that it computes.
func (f *form) looks() bool {
	return !f.alias && (f.Kind == RowsWindow || f.Kind == RowsShift || f.Kind == RowsSum)
}

// TimeMajor returns a binding in which the sequences that steps look along are rows, for the backend b. It returns
// d itself if the graph declares no time, or if rows would not pay. Step.Rows is set for the steps that work on
// rows. They compute the values of d's steps, and further values that have the rows of sequences.
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

// looks reports whether a step may read other steps of time, on rows.
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

// asRowShape returns the shape that a sequence of three axes has as rows.
func (t *layouts) asRowShape(v *Value) []int {
	shape := t.d.Shape(v)
	if t.d.timeAxis(v) == 2 {
		return []int{shape[0], shape[2], shape[1]}
	}
	return shape
}

// moves returns the pieces that a step's outputs consist of, without constant zeros. It returns nil if the step does
// not only move elements.
func (t *layouts) moves(s *Step) []ir.Piece {
	if s.Node.Op.Moves == nil {
		return nil
	}
	pieces, found := t.pieces[s]
	if found {
		return pieces
	}
	pieces, ok := ops.Moves(s.Node.Paced(t.d.memory.pace)) // often the types of the graph suffice
	if !ok {
		if n := t.d.Concrete(s); n != nil {
			pieces, _ = ops.Moves(n)
		}
	}
	pieces = slices.DeleteFunc(pieces, func(p ir.Piece) bool {
		t.d.Steps().Step(20)
		k := t.d.Constant(s.In[p.Input])
		return k != nil && zeros(k)
	})
	t.pieces[s] = pieces
	return pieces
}

// sums returns the axis along which a step sums up; ok is false if it does something else.
func (d *Binding) sums(s *Step) (sum ir.RunningSum, ok bool) {
	if sum, ok = ops.Sums(s.Node); !ok {
		if n := d.Concrete(s); n != nil {
			return ops.Sums(n)
		}
	}
	return sum, ok
}

// zeros reports whether all elements of a tensor are zero.
func zeros(k *tensor.Tensor) bool {
	v, err := k.Float64s()
	return err == nil && !slices.ContainsFunc(v, func(x float64) bool { return x != 0 })
}
