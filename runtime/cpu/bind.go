package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// binding is a program seen with one set of shapes.
type binding struct {
	p      *program
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
	branches map[*step]*[2]*binding
	bodies   map[*step]*loopBinding // those of Loop and Scan; nil where there are none
	items    map[*value]items       // what is known of sequences
	refused  bool
	err      error // why nothing can be planned
}

// lookup sets what is known of values before the run.
func (p *program) lookup(b runtime.Binding) *binding { return p.bind(b, nil) }

// What no machine holds: more is refused before it is planned. Sums over the values of a program stay far below what an int64
// can count.
const (
	mostNumbers = min(1<<40, math.MaxInt>>4) // of one value
	mostBytes   = min(1<<42, math.MaxInt)    // of one plan
)

// refuse notes a value that is too large; the first counts.
func (d *binding) refuse(v *value, shape []int) {
	if d.err == nil {
		d.err = fmt.Errorf("value %s of graph %s: shape %v has more than %d numbers: %w", v.name, d.p.graph.Name, shape, mostNumbers, runtime.ErrMemory)
	}
}

// bind is lookup with the content of inputs, as far as it is known.
func (p *program) bind(b runtime.Binding, content []*tensor.Tensor) *binding {
	n := len(p.values)
	d := &binding{p: p, shapes: make([][]int, n), f32: make([]bool, n), dtype: make([]tensor.DType, n), konst: make([]*tensor.Tensor, n), dims: b.Dims,
		last: make([]int, n), reads: make([][]*step, n), given: map[*value]bool{}, dead: map[*step]bool{}, branches: map[*step]*[2]*binding{}}
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
func (d *binding) lifetimes() {
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

// shapesOf gives the shapes of a step's inputs and of its first output, where all of those that are there are float32
// tensors of known shape; a core's state may be float64.
func (d *binding) shapesOf(s *step) (in [][]int, out []int, ok bool) {
	in = make([][]int, len(s.in))
	for i, v := range s.in {
		if v == nil || d.missing(v) {
			continue
		}
		wide := s.core != nil && s.core.info().state == i && d.wide(v)
		if d.shapes[v.id] == nil || v.konst == nil && !d.f32[v.id] && !wide {
			return nil, nil, false
		}
		in[i] = d.shapes[v.id]
	}
	for i, v := range s.out {
		if wide := v != nil && s.core != nil && s.core.info().stateOut == i && d.wide(v); v != nil && !d.f32[v.id] && !wide {
			return nil, nil, false
		}
	}
	if s.out[0] != nil {
		out = d.shapes[s.out[0].id]
	}
	return in, out, true
}

// wide reports whether v is a float64 tensor of known shape.
func (d *binding) wide(v *value) bool {
	tt, ok := ir.AsTensor(v.typ)
	return ok && tt.Elem == tensor.Float64 && d.shapes[v.id] != nil
}

// unit is what is executed at once: a region, or a step by itself.
type unit struct {
	steps    []*step
	region   *region // nil: one step
	whole    wholeFunc
	kernel   *boundKernel
	span     spanKernel
	temp     []float32
	subs     []*executable
	past     []runtime.StepTime // what executables that are no longer among subs have measured
	epilogue *epilogue          // steps[1:]; nil: none
}

// units cuts the steps into units.
func (d *binding) units() []*unit {
	var all []*unit
	var open *draft
	flush := func() {
		if open != nil {
			all = append(all, &unit{steps: open.steps, region: open.finish(d)})
			open = nil
		}
	}
	taken := map[*step]bool{}
	for _, s := range d.p.steps {
		if d.dead[s] || taken[s] {
			continue
		}
		op, c, batch, length := d.member(s)
		if op == nil && c == nil {
			flush()
			u := &unit{steps: []*step{s}}
			if s.spans != nil {
				u.span = s.spans(d)
			}
			if u.span == nil && s.whole != nil {
				if in, out, ok := d.wholeShapes(s); ok {
					u.whole = s.whole(in, out)
				}
			}
			if u.span == nil && u.whole == nil && s.kernel != nil {
				u.kernel = s.kernel(d)
			}
			u.absorb(d)
			for _, r := range u.steps[1:] {
				taken[r] = true
			}
			all = append(all, u)
			continue
		}
		if open != nil && !open.takes(d, s, op, c, batch, length) {
			flush()
		}
		if open == nil {
			open = &draft{group: s.group, rows: batch * length}
		}
		open.add(s, op, c, batch, length)
	}
	flush()
	return all
}

// missing reports whether v is an optional input that is not given.
func (d *binding) missing(v *value) bool {
	_, optional := v.typ.(*ir.OptionalType)
	return optional && d.shapes[v.id] == nil && d.given[v]
}

// wholeShapes gives the shapes of all inputs and of the output, where they are known.
func (d *binding) wholeShapes(s *step) (in [][]int, out []int, ok bool) {
	in = make([][]int, len(s.in))
	for i, v := range s.in {
		if v == nil {
			continue
		}
		if d.shapes[v.id] == nil {
			if v.konst != nil { // a scalar
				in[i] = []int{}
				continue
			}
			if d.missing(v) {
				continue
			}
			return nil, nil, false
		}
		in[i] = d.shapes[v.id]
	}
	for i, v := range s.out {
		if (v == nil || !d.f32[v.id]) && (i == 0 || !keepsState(s.node)) {
			return nil, nil, false
		}
	}
	return in, d.shapes[s.out[0].id], true
}

// member says how a step can be part of a region: as a row kernel or as a core over (batch, length) rows.
func (d *binding) member(s *step) (op *rowOp, c core, batch, length int) {
	if s.window != nil || s.sums != nil || s.turn != straight {
		return d.flowing(s)
	}
	if s.row == nil && s.core == nil {
		return nil, nil, 0, 0
	}
	in, out, ok := d.shapesOf(s)
	if !ok {
		return nil, nil, 0, 0
	}
	if s.core != nil {
		v := in[s.core.info().vRe]
		if len(v) != 3 || v[2] != s.core.info().n {
			return nil, nil, 0, 0
		}
		if st := s.core.info().state; st >= 0 && (in[st] == nil || in[st][0] != v[0]) {
			return nil, nil, 0, 0
		}
		return nil, s.core, v[0], v[1]
	}
	if s.out[0] == nil {
		return nil, nil, 0, 0
	}
	if op = s.row(in, out); op == nil {
		return nil, nil, 0, 0
	}
	n, _ := features(out)
	return op, nil, 1, n
}

// draft is a region that grows.
type draft struct {
	group, rows   int
	steps         []*step
	ops           []*rowOp
	covers        []*step  // steps of the program: those above, before chains were made of some
	between       []*value // what lies between steps that are a chain
	core          core
	coreAt        int
	batch, length int
	flows         bool // a step looks back or ahead, or brings sequences into rows
	weights       int  // constant numbers that a tile passes through
}

// takes reports whether the next step can join.
func (r *draft) takes(d *binding, s *step, op *rowOp, c core, batch, length int) bool {
	if s.group != r.group || batch*length != r.rows || !r.flowsWith(d, s, op, c, batch, length) {
		return false
	}
	if r.core == nil {
		return true
	}
	// A second recurrence, and what was written out together with it, starts a region of its own: the weights of two layers
	// would drive each other out of the cache.
	return c == nil && (s.src == r.steps[r.coreAt].src || !hasCore(s.src))
}

// hasCore reports whether the node's operator is written as a recurrence.
func hasCore(n *ir.Node) bool {
	switch n.Op.FullName() {
	case "essm.SSM", "essm.DenseSSM", "essm.StateSpace", "essm.Scan", "essm.DenseScan":
		return true
	}
	return false
}

func (r *draft) add(s *step, op *rowOp, c core, batch, length int) {
	if c != nil {
		r.core, r.coreAt, r.batch, r.length = c, len(r.steps), batch, length
	}
	if op.flows() {
		r.flows, r.batch, r.length = true, batch, length
	}
	r.weights += s.numbers()
	r.steps = append(r.steps, s)
	r.ops = append(r.ops, op)
}

// Bind plans an execution.
func (p *program) Bind(b runtime.Binding) (runtime.Executable, error) {
	if len(b.Inputs) != len(p.inputs) {
		return nil, fmt.Errorf("binding has %d inputs, the graph %d", len(b.Inputs), len(p.inputs))
	}
	d := p.lookup(b)
	if d.err != nil {
		return nil, d.err
	}
	d = d.timeMajor()
	return newExecutable(d, d.units(), nil)
}

// Explain says which forms the recurrences take, how loops run, and in which precision products run where low precision was asked for.
func (p *program) Explain(b runtime.Binding) ([]runtime.Choice, error) {
	if len(b.Inputs) != len(p.inputs) {
		return nil, fmt.Errorf("binding has %d inputs, the graph %d", len(b.Inputs), len(p.inputs))
	}
	d := p.lookup(b)
	if d.err != nil {
		return nil, d.err
	}
	d = d.timeMajor()
	all, products := d.choices()
	return append(all, products...), nil
}

// inside reports whether every reader of v is among the steps.
func (d *binding) inside(v *value, steps []*step) bool {
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
