package lowering

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// Binding is a program with shapes: everything that is known about its values and steps before a run. It is
// immutable, except for the account of its executable's memory (Charge). Callers must not change the slices and
// tensors that its methods return.
type Binding struct {
	// Program is the bound program.
	Program *Program

	dims     map[string]int64
	values   []bound // by ID
	dead     map[*Step]bool
	branches map[*Step]*[2]*Binding
	bodies   map[*Step]*LoopBinding
	items    map[*Value]items // of values that are sequences of tensors
	refused  bool
	refusal  error // of the first node whose operator refuses the bound types
	err      error
	memory   *memory // of the executable
	charged  int64   // bytes of memory.held
	known    *ir.Budget
	checks   checks
	room     *room // for nodes that live no longer than their inference
}

// checks selects the nodes for which a binding checks whether the operator accepts its sizes.
type checks int

const (
	checkAll      checks = iota // the first binding: nothing is known yet
	noteDistinct                // the sizes are those of tryDistinct, and the results are recorded
	checkDoubtful               // only nodes that distinct sizes have left open
)

// bound is everything that is known about a value.
type bound struct {
	slotted bool  // a kernel has requested its slot
	shape   []int // nil if it is not a tensor, or of unknown shape
	dtype   tensor.DType
	content *tensor.Tensor // as far as it follows from the shapes
	given   bool
	made    int
	last    int
	readers []*Step
}

// Err returns the reason why the binding cannot be executed, or nil.
func (d *Binding) Err() error { return d.err }

// Refused reports whether the types of a node do not fit its operator, so that every run fails.
func (d *Binding) Refused() bool { return d.refused }

// Shape returns the shape of a tensor, or nil if it is not known before the run or v is not a tensor.
func (d *Binding) Shape(v *Value) []int { return d.values[v.ID].shape }

// DType returns the element type of a tensor of known shape, or tensor.Invalid for other values.
func (d *Binding) DType(v *Value) tensor.DType { return d.values[v.ID].dtype }

// IsFloat32 reports whether v is a float32 tensor of known shape.
func (d *Binding) IsFloat32(v *Value) bool { return d.values[v.ID].dtype == tensor.Float32 }

// Known returns the content of a value that follows from the shapes, or that the program was bound with. It returns
// nil for other values, and for constants of the graph.
func (d *Binding) Known(v *Value) *tensor.Tensor { return d.values[v.ID].content }

// Given reports whether v is an input of the program.
func (d *Binding) Given(v *Value) bool { return d.values[v.ID].given }

// Made returns the index of the step that computes v; -1 for inputs, constants and settled values.
func (d *Binding) Made(v *Value) int { return d.values[v.ID].made }

// Last returns the index of the last step that reads v; -1 if there is none, and len(Program.Steps) for outputs of the
// program.
func (d *Binding) Last(v *Value) int { return d.values[v.ID].last }

// Leaves reports whether v is an output of the program.
func (d *Binding) Leaves(v *Value) bool { return d.values[v.ID].last == len(d.Program.Steps) }

// Readers returns the steps that read v, in order. A step that reads it twice is listed twice.
func (d *Binding) Readers(v *Value) []*Step { return d.values[v.ID].readers }

// Dead reports whether s need not run, since all its outputs are known.
func (d *Binding) Dead(s *Step) bool { return d.dead[s] }

// Body returns the bound body of a Loop or Scan, or nil if the body is not a program.
func (d *Binding) Body(s *Step) *LoopBinding { return d.bodies[s] }

// Sizes that no machine has. Larger ones are refused before memory is planned, so that sums over the values of a
// program cannot overflow int64.
const (
	mostNumbers = min(1<<40, math.MaxInt>>4) // elements of one value
	mostBytes   = min(1<<42, math.MaxInt)    // bytes of one plan
)

// refuse sets the error for a value that is too large. The first error is kept.
func (d *Binding) refuse(v *Value, shape []int) {
	if d.err == nil {
		d.err = fmt.Errorf("value %s of graph %s: shape %v has more than %d numbers: %w", v.Name, d.Program.Graph.Name,
			shape, mostNumbers, runtime.ErrMemory)
	}
}

// Bind returns the program with the shapes of b. content holds the content of inputs, as far as it is known. Errors are
// in Binding.Err.
func (p *Program) Bind(b runtime.Binding, content []*tensor.Tensor) *Binding {
	m := newMemory(b.Budget, &p.Config)
	m.steps.Ctx = b.Ctx
	which := checkAll
	if p.trial.bound.Swap(true) { // a program that is bound once need not try others
		p.trial.once.Do(func() { p.tryDistinct(b.Ctx) })
		which = checkDoubtful
	}
	return p.bind(b, content, m, newKnown(), which)
}

// bind is Bind for a program whose memory is part of an account. known is the budget for evaluating values that
// follow from shapes.
func (p *Program) bind(b runtime.Binding, content []*tensor.Tensor, m *memory, known *ir.Budget, c checks) *Binding {
	defer m.pacing()()
	d := &Binding{Program: p, dims: b.Dims, values: make([]bound, len(p.Values)), dead: map[*Step]bool{},
		branches: map[*Step]*[2]*Binding{}, memory: m, known: known, checks: c}
	given := make([]ir.Type, len(p.Values))
	for i, v := range p.Inputs {
		m.steps.Step(50)
		given[v.ID] = b.Inputs[i]
		d.values[v.ID].given = true
		d.takeItems(v, b.Inputs[i])
	}
	for _, v := range p.Values {
		m.steps.Step(100)
		t := v.Type
		if d.values[v.ID].given {
			t = given[v.ID]
		}
		if k := v.Fixed(); k != nil {
			d.set(v, k.DType(), shapeOf(k))
			continue
		}
		tt, ok := t.(*ir.TensorType)
		if !ok || tt == nil || tt.NoRank {
			continue
		}
		shape := make([]int, len(tt.Shape))
		for i, dim := range tt.Shape {
			k, err := dim.Eval(b.Dims)
			if err != nil || k < 0 {
				shape = nil
				break
			}
			shape[i] = int(k)
		}
		size, err := tensor.Size(shape)
		if err != nil || size > mostNumbers {
			d.refuse(v, shape)
		}
		if shape == nil || err != nil {
			continue
		}
		d.set(v, tt.Elem, shape)
	}
	for i, t := range content {
		m.steps.Step(10)
		d.values[p.Inputs[i].ID].content = t
	}
	d.resolve()
	if d.room = nil; c != noteDistinct {
		d.readers()
	}
	return d
}

// set sets the type of a tensor.
func (d *Binding) set(v *Value, dtype tensor.DType, shape []int) {
	d.values[v.ID].dtype, d.values[v.ID].shape = dtype, shape
}

// readers sets the readers of all values.
func (d *Binding) readers() {
	p := d.Program
	for i := range d.values {
		d.Steps().Step(2)
		d.values[i].made, d.values[i].last, d.values[i].readers = -1, -1, nil
	}
	for i, s := range p.Steps {
		d.Steps().Step(20)
		for _, v := range s.Out {
			if d.Steps().Step(20); v != nil {
				d.values[v.ID].made = i
			}
		}
		if d.dead[s] {
			continue
		}
		for v := range s.Reads {
			d.Steps().Step(40)
			b := &d.values[v.ID]
			b.last, b.readers = i, append(b.readers, s)
		}
	}
	for _, v := range p.Outputs {
		d.values[v.ID].last = len(p.Steps)
	}
}

// Rewrite returns a binding of the same program with other steps, which compute the same outputs with additional
// values. The IDs of more continue those of d, and their types have known shapes; facts are their facts along time.
// d does not change.
func (d *Binding) Rewrite(steps []*Step, more []*Value, facts []ir.Fact) *Binding {
	p, n := *d.Program, *d
	p.Steps, p.Values = steps, append(slices.Clip(p.Values), more...)
	if p.facts != nil {
		p.facts = append(slices.Clip(p.facts), facts...)
	}
	n.Program, n.values = &p, make([]bound, len(p.Values))
	copy(n.values, d.values)
	for _, v := range more {
		t := v.Type.(*ir.TensorType)
		shape, _ := t.Shape.Known()
		n.set(v, t.Elem, shape)
	}
	n.readers()
	return &n
}

// Wide reports whether v is a float64 tensor of known shape.
func (d *Binding) Wide(v *Value) bool {
	tt, ok := ir.AsTensor(v.Type)
	return ok && tt.Elem == tensor.Float64 && d.Shape(v) != nil
}

// Missing reports whether v is an optional input that is absent.
func (d *Binding) Missing(v *Value) bool {
	_, optional := v.Type.(*ir.OptionalType)
	return optional && d.Shape(v) == nil && d.Given(v)
}

// Inside reports whether all readers of v are among the steps.
func (d *Binding) Inside(v *Value, steps []*Step) bool {
	if d.Leaves(v) || d.Given(v) {
		return false
	}
	for _, s := range d.Readers(v) {
		if !slices.Contains(steps, s) {
			return false
		}
	}
	return true
}
