package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// lbinding is a program seen with one set of shapes.
type lbinding struct {
	p      *lprogram
	shapes [][]int          // per value; nil where it is no tensor of a shape that is known before the run
	f32    []bool           // per value: a float32 tensor of known shape
	dtype  []tensor.DType   // per value: the element type, where the shape is known
	konst  []*tensor.Tensor // per value: its content, where that follows from the shapes
	dims   map[string]int64
	last   []int // per value: the last step that reads it; len(steps) for outputs of the graph
	reads  [][]*step
	given  map[*value]bool // inputs of the graph
	dead   map[*step]bool  // steps of which nothing is left: their outputs are known
	// branches are the subgraphs that an If may take, bound; refused says that a step's types do not fit, so that a run
	// must fail.
	branches map[*step]*[2]*lbinding
	bodies   map[*step]*loopBinding // those of Loop and Scan; nil where there are none
	items    map[*value]items       // what is known of sequences
	refused  bool
	err      error // why nothing can be planned
}

// What no machine holds: more is refused before it is planned. Sums over the values of a program stay far below what an int64
// can count.
const (
	mostNumbers = min(1<<40, math.MaxInt>>4) // of one value
	mostBytes   = min(1<<42, math.MaxInt)    // of one plan
)

// refuse notes a value that is too large; the first counts.
func (d *lbinding) refuse(v *value, shape []int) {
	if d.err == nil {
		d.err = fmt.Errorf("value %s of graph %s: shape %v has more than %d numbers: %w", v.name, d.p.graph.Name, shape, mostNumbers, runtime.ErrMemory)
	}
}

// bind sets what is known of values before the run; content is that of inputs, as far as it is known.
func (p *lprogram) bind(b runtime.Binding, content []*tensor.Tensor) *lbinding {
	n := len(p.values)
	d := &lbinding{p: p, shapes: make([][]int, n), f32: make([]bool, n), dtype: make([]tensor.DType, n), konst: make([]*tensor.Tensor, n), dims: b.Dims,
		last: make([]int, n), reads: make([][]*step, n), given: map[*value]bool{}, dead: map[*step]bool{}, branches: map[*step]*[2]*lbinding{}}
	given := map[*value]ir.Type{}
	for i, v := range p.inputs {
		given[v] = b.Inputs[i]
		d.given[v] = true
		d.takeItems(v, b.Inputs[i])
	}
	for _, v := range p.values {
		t := v.typ
		if g, ok := given[v]; ok {
			t = g
		}
		if v.konst != nil {
			d.shapes[v.id], d.dtype[v.id], d.f32[v.id] = shapeOf(v.konst), v.konst.DType(), v.konst.DType() == tensor.Float32
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
		d.shapes[v.id], d.dtype[v.id], d.f32[v.id] = shape, tt.Elem, tt.Elem == tensor.Float32
	}
	for i, t := range content {
		d.konst[p.inputs[i].id] = t
	}
	d.resolve()
	d.lifetimes()
	return d
}

// lifetimes finds who reads what.
func (d *lbinding) lifetimes() {
	p := d.p
	for i := range d.last {
		d.last[i] = -1
	}
	for i, s := range p.steps {
		if d.dead[s] {
			continue
		}
		for _, v := range s.in {
			if v != nil {
				d.last[v.id] = i
				d.reads[v.id] = append(d.reads[v.id], s)
			}
		}
		for _, c := range s.captures {
			d.last[c.val.id] = i
			d.reads[c.val.id] = append(d.reads[c.val.id], s)
		}
	}
	for _, v := range p.outputs {
		d.last[v.id] = len(p.steps)
	}
}

// wide reports whether v is a float64 tensor of known shape.
func (d *lbinding) wide(v *value) bool {
	tt, ok := ir.AsTensor(v.typ)
	return ok && tt.Elem == tensor.Float64 && d.shapes[v.id] != nil
}

// missing reports whether v is an optional input that is not given.
func (d *lbinding) missing(v *value) bool {
	_, optional := v.typ.(*ir.OptionalType)
	return optional && d.shapes[v.id] == nil && d.given[v]
}

// inside reports whether every reader of v is among the steps.
func (d *lbinding) inside(v *value, steps []*step) bool {
	if d.last[v.id] == len(d.p.steps) || d.given[v] {
		return false
	}
	for _, s := range d.reads[v.id] {
		if !slices.Contains(steps, s) {
			return false
		}
	}
	return true
}
