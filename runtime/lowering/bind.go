package lowering

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// Binding is a program seen with one set of shapes.
type Binding struct {
	Program *Program
	Shapes  [][]int          // per value; nil where it is no tensor of a shape that is known before the run
	F32     []bool           // per value: a float32 tensor of known shape
	DTypes  []tensor.DType   // per value: the element type, where the shape is known
	Known   []*tensor.Tensor // per value: its content, where that follows from the shapes
	dims    map[string]int64
	Last    []int // per value: the last step that reads it; len(steps) for outputs of the graph
	Reads   [][]*Step
	Given   map[*Value]bool // inputs of the graph
	Dead    map[*Step]bool  // steps of which nothing is left: their outputs are known
	// branches are the subgraphs that an If may take, bound; refused says that a step's types do not fit, so that a run
	// must fail.
	Branches map[*Step]*[2]*Binding
	Bodies   map[*Step]*LoopBinding // those of Loop and Scan; nil where there are none
	items    map[*Value]items       // what is known of sequences
	Refused  bool
	Err      error // why nothing can be planned
}

// What no machine holds: more is refused before it is planned. Sums over the values of a program stay far below what an int64
// can count.
const (
	MostNumbers = min(1<<40, math.MaxInt>>4) // of one value
	MostBytes   = min(1<<42, math.MaxInt)    // of one plan
)

// refuse notes a value that is too large; the first counts.
func (d *Binding) refuse(v *Value, shape []int) {
	if d.Err == nil {
		d.Err = fmt.Errorf("value %s of graph %s: shape %v has more than %d numbers: %w", v.Name, d.Program.Graph.Name, shape, MostNumbers, runtime.ErrMemory)
	}
}

// Bind sets what is known of values before the run; content is that of inputs, as far as it is known.
func (p *Program) Bind(b runtime.Binding, content []*tensor.Tensor) *Binding {
	n := len(p.Values)
	d := &Binding{Program: p, Shapes: make([][]int, n), F32: make([]bool, n), DTypes: make([]tensor.DType, n), Known: make([]*tensor.Tensor, n), dims: b.Dims,
		Last: make([]int, n), Reads: make([][]*Step, n), Given: map[*Value]bool{}, Dead: map[*Step]bool{}, Branches: map[*Step]*[2]*Binding{}}
	given := map[*Value]ir.Type{}
	for i, v := range p.Inputs {
		given[v] = b.Inputs[i]
		d.Given[v] = true
		d.takeItems(v, b.Inputs[i])
	}
	for _, v := range p.Values {
		t := v.Type
		if g, ok := given[v]; ok {
			t = g
		}
		if v.Const != nil {
			d.Shapes[v.ID], d.DTypes[v.ID], d.F32[v.ID] = shapeOf(v.Const), v.Const.DType(), v.Const.DType() == tensor.Float32
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
		if err != nil || size > MostNumbers {
			d.refuse(v, shape)
		}
		if shape == nil || err != nil {
			continue
		}
		d.Shapes[v.ID], d.DTypes[v.ID], d.F32[v.ID] = shape, tt.Elem, tt.Elem == tensor.Float32
	}
	for i, t := range content {
		d.Known[p.Inputs[i].ID] = t
	}
	d.resolve()
	d.Lifetimes()
	return d
}

// Lifetimes finds who reads what.
func (d *Binding) Lifetimes() {
	p := d.Program
	for i := range d.Last {
		d.Last[i] = -1
	}
	for i, s := range p.Steps {
		if d.Dead[s] {
			continue
		}
		for _, v := range s.In {
			if v != nil {
				d.Last[v.ID] = i
				d.Reads[v.ID] = append(d.Reads[v.ID], s)
			}
		}
		for _, c := range s.Captures {
			d.Last[c.Outer.ID] = i
			d.Reads[c.Outer.ID] = append(d.Reads[c.Outer.ID], s)
		}
	}
	for _, v := range p.Outputs {
		d.Last[v.ID] = len(p.Steps)
	}
}

// Wide reports whether v is a float64 tensor of known shape.
func (d *Binding) Wide(v *Value) bool {
	tt, ok := ir.AsTensor(v.Type)
	return ok && tt.Elem == tensor.Float64 && d.Shapes[v.ID] != nil
}

// Missing reports whether v is an optional input that is not given.
func (d *Binding) Missing(v *Value) bool {
	_, optional := v.Type.(*ir.OptionalType)
	return optional && d.Shapes[v.ID] == nil && d.Given[v]
}

// Inside reports whether every reader of v is among the steps.
func (d *Binding) Inside(v *Value, steps []*Step) bool {
	if d.Last[v.ID] == len(d.Program.Steps) || d.Given[v] {
		return false
	}
	for _, s := range d.Reads[v.ID] {
		if !slices.Contains(steps, s) {
			return false
		}
	}
	return true
}
