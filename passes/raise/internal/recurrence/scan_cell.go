package recurrence

import (
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// draft is a recurrence, given by an operator or by a range of nodes, whose cell has not been read yet.
type draft struct {
	run     *passes.Context
	node    *ir.Node // the recurrence, or its first node
	states  []stepValue
	next    []*ir.Value
	inputs  []stepValue
	outputs []*ir.Value

	in, out []sequence
	results []*ir.Value // values of the graph that the outputs replace
	initial []*ir.Value
	final   []*ir.Value             // values of the graph that the final states replace; nil: unused
	alias   map[*ir.Value]*ir.Value // from a value of the step to its equal outside

	parallel bool // node computes one of the results
}

// stepValue is a value of one step with its shape in the step.
type stepValue struct {
	v     *ir.Value
	shape ir.Shape
}

// raised is the replacement of a draft.
type raised struct {
	plan           *plan
	outputs, final []*ir.Value
}

// raise reads the draft's cell and builds a scan that computes the same. The error says why it cannot.
func (d *draft) raise(g *ir.Graph, b *ir.Builder) (*raised, error) {
	if len(d.states) == 0 {
		return nil, errors.New("it carries no state")
	}
	if len(d.inputs) == 0 {
		return nil, errors.New("it reads no step of a sequence")
	}
	elem := d.in[0].v.Elem()
	if !slices.Contains(ops.Floats, elem) {
		return nil, fmt.Errorf("it reads steps of %v", elem)
	}
	values := slices.Concat(d.outputs, d.next)
	for _, x := range slices.Concat(d.states, d.inputs) {
		values = append(values, x.v)
		if n, known := x.shape.Size().Known(); known && n == 0 {
			return nil, fmt.Errorf("%s is empty", x.v.Name)
		}
	}
	for _, v := range values {
		if v.Elem() != elem {
			return nil, fmt.Errorf("%s is of %v, and the steps of %v", v.Name, v.Elem(), elem)
		}
	}
	cells, err := d.cells()
	if err != nil {
		return nil, err
	}
	var why error
	var sys *system
	var at *cell
	for _, c := range cells {
		s, err := c.read()
		if err == nil {
			sys, at = s, c
			break
		}
		if why == nil {
			why = err
		}
	}
	if sys == nil {
		return nil, why
	}
	return d.build(g, b, at, sys)
}

// build builds a scan for a cell that has been read.
func (d *draft) build(g *ir.Graph, b *ir.Builder, at *cell, sys *system) (*raised, error) {
	for i, o := range sys.outputs {
		if q := &d.out[i]; q.time < 0 {
			if q.time += len(o.at.shape); !q.kept {
				q.time++
			}
		}
		if q := d.out[i]; q.time < 0 || q.kept && (q.time >= len(o.at.shape) || o.at.shape[q.time] != 1) ||
			q.time > len(o.at.shape) {
			return nil, fmt.Errorf("output %s of shape %v cannot have time as axis %d", o.at.v.Name, o.at.shape, q.time)
		}
	}
	d.project(g, at, sys)
	r := &recurrence{cell: at, inputs: d.in, outputs: d.out, elem: d.in[0].v.Elem()}
	var keep []bool
	for i, s := range at.states {
		d.run.Check()
		init := d.initial[i]
		if isZero(d.run, init) {
			init = nil
		} else if s.batch < 0 != at.single() {
			return nil, fmt.Errorf("the initial state %s has no axis of samples", init.Name)
		}
		r.initial = append(r.initial, init)
		r.final = append(r.final, d.final[i] != nil)
		for range s.size() {
			keep = append(keep, init != nil || d.final[i] != nil)
		}
	}
	var err error
	if r.plan, err = newPlan(d.run, sys, keep); err != nil {
		return nil, err
	}
	outputs, final := r.emit(b)
	return &raised{r.plan, outputs, final}, nil
}

// isZero reports whether an initial state is zero, for all values of the open dimensions.
func isZero(run *passes.Context, v *ir.Value) bool {
	if v == nil {
		return true
	}
	for _, n := range []int64{2, 5} {
		t, err := regions.Constants(run, symbolsOf(v, n)).Tensor(v)
		if err != nil {
			return false
		}
		x, err := t.Float64s()
		if err != nil || slices.ContainsFunc(x, func(e float64) bool { return e != 0 }) {
			return false
		}
	}
	return true
}

// symbolsOf assigns numbers, from n on, to the open dimensions of the values that v is computed from.
func symbolsOf(v *ir.Value, n int64) map[string]int64 {
	bind, walk := map[string]int64{}, regions.WalkFrom(v)
	for v := range walk.Values() {
		for _, d := range v.Shape() {
			for _, name := range d.Symbols() {
				if _, ok := bind[name]; !ok {
					bind[name] = n + int64(len(bind))
				}
			}
		}
		if v.Def != nil {
			walk.Add(v.Def.Inputs...)
		}
	}
	return bind
}

// cells returns the possible axes of samples of the step's tensors: the one symbol among their dimensions or, if all
// dimensions are numbers, the first axis or none.
func (d *draft) cells() ([]*cell, error) {
	all := slices.Concat(d.states, d.inputs)
	symbol, used := "", map[int64]bool{1: true}
	for _, s := range all {
		if s.shape == nil {
			return nil, fmt.Errorf("the shape of %s is not known", s.v.Name)
		}
		open := 0
		for _, dim := range s.shape {
			if n, ok := dim.Known(); ok {
				used[n] = true
				continue
			}
			name, ok := dim.Symbol()
			if !ok || symbol != "" && name != symbol {
				return nil, fmt.Errorf("shape %v of %s has an open dimension besides the samples", s.shape,
					s.v.Name)
			}
			symbol = name
			open++
		}
		if open > 1 {
			return nil, fmt.Errorf("shape %v of %s has two axes that may be the samples", s.shape, s.v.Name)
		}
	}
	if symbol == "" {
		var out []*cell
		if c := d.fixedCell(all); c != nil {
			out = append(out, c)
		}
		return append(out, d.cell(1, nil, func(ir.Shape) int { return -1 })), nil
	}
	// A number of samples that differs from all other dimensions.
	count := int64(2)
	for used[count] {
		count++
	}
	axis := func(s ir.Shape) int {
		return slices.IndexFunc(s, func(dim ir.Dim) bool { _, known := dim.Known(); return !known })
	}
	for i, s := range all {
		if axis(s.shape) < 0 && (i >= len(d.states) || !isZero(d.run, d.initial[i])) {
			return nil, fmt.Errorf("%s has no axis of samples: its shape is %v, expected an axis of size %s in it",
				s.v.Name, s.shape, symbol)
		}
	}
	return []*cell{d.cell(int(count), map[string]int64{symbol: count}, axis)}, nil
}

// fixedCell takes the first axes as the axes of samples, if all tensors have one and they have the same size.
func (d *draft) fixedCell(all []stepValue) *cell {
	n := int64(-1)
	for _, s := range all {
		if len(s.shape) < 2 {
			return nil
		}
		k, _ := s.shape[0].Known()
		if n >= 0 && k != n {
			return nil
		}
		n = k
	}
	return d.cell(int(n), nil, func(ir.Shape) int { return 0 })
}

func (d *draft) cell(samples int, bind map[string]int64, axis func(ir.Shape) int) *cell {
	c := &cell{run: d.run, samples: samples, bind: bind, next: d.next, outputs: d.outputs, alias: d.alias}
	slots := func(list []stepValue) (out []slot) {
		for _, s := range list {
			shape := make([]int, len(s.shape))
			for i, dim := range s.shape {
				n, _ := dim.Eval(bind)
				shape[i] = int(n)
			}
			out = append(out, slot{s.v, shape, axis(s.shape)})
		}
		return out
	}
	c.states, c.inputs = slots(d.states), slots(d.inputs)
	return c
}
