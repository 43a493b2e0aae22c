package recurrence

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/linear"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Unrolled recognizes linear recurrences that were written step by step.
var Unrolled = &passes.Pass{
	Name: "raise-unrolled",
	Doc: "Equal linear steps, one for each index of a time axis of fixed length, with results joined by Concat → " +
		"essm.Scan or essm.DenseScan with projections.",
	After: []passes.Reason{
		{Pass: "upgrade", Why: "it reads steps of operators of the newest versions"},
	},
	Before: []passes.Reason{
		regions.BeforeFoldRecurrences,
		{Pass: "cse", Why: "merging equal values of the first step would make it differ from the others"},
		regions.BeforeFuse,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		changes := 0
		done := map[*ir.Node]bool{}
		for _, n := range slices.Clone(g.Nodes) {
			c.Check()
			u := findUnrolled(c, g, n, done)
			if u == nil {
				continue
			}
			for _, j := range u.joins {
				done[j] = true
			}
			u.assign()
			states, err := u.crossing()
			if len(states[1]) == 0 {
				continue
			}
			name := n.String()
			var made *raised
			if err == nil {
				made, err = u.raise(g, states)
			}
			if err != nil {
				regions.NoteMiss(c, "unrolled", n, "%v", err)
				continue
			}
			c.Note("unrolled: %d steps up to %s are a linear recurrence, %v", u.steps, name, made.plan)
			changes++
			if err := passes.Finish(g); err != nil {
				return changes, err
			}
		}
		return changes, nil
	},
}

// raise reads all steps and replaces them by a scan.
func (u *unrolled) raise(g *ir.Graph, states [][]*ir.Value) (*raised, error) {
	d, err := u.draft(states)
	if err != nil {
		return nil, err
	}
	cells, err := d.cells()
	if err != nil {
		return nil, err
	}
	var why error
	for _, c := range cells {
		r, err := u.read(g, c, d, states)
		if err != nil {
			if why == nil {
				why = err
			}
			continue
		}
		b := passes.Edit(g)
		b.Scope(u.joins[0].Scope)
		outs, final := r.emit(b)
		if err := b.Err(); err != nil {
			return nil, err
		}
		for i, j := range u.joins {
			passes.Replace(g, j.Outputs[0], outs[i])
		}
		for i, v := range d.final {
			if v != nil {
				passes.Replace(g, v, final[i])
			}
		}
		return &raised{r.plan, outs, final}, nil
	}
	return nil, why
}

// draft describes step 1. All other steps must equal it.
func (u *unrolled) draft(states [][]*ir.Value) (*draft, error) {
	d := &draft{run: u.run, node: u.joins[0]}
	for _, v := range states[1] {
		d.states = append(d.states, stepValue{v, v.Shape()})
		d.initial = append(d.initial, nil)
		d.final = append(d.final, nil)
	}
	if d.next = states[2]; len(d.next) != len(d.states) {
		return nil, fmt.Errorf("step 1 reads %d values of the previous step, step 2 reads %d", len(d.states),
			len(d.next))
	}
	list, alias := u.inputs(1)
	d.alias = alias
	for _, v := range list {
		l := u.leaves[v]
		d.inputs = append(d.inputs, stepValue{v, v.Shape()})
		d.in = append(d.in, sequence{v: l.v, time: l.axis, kept: l.kept, reversed: u.reverse})
	}
	if len(d.inputs) == 0 {
		return nil, errors.New("it reads no step of a sequence")
	}
	for j := range u.joins {
		d.outputs = append(d.outputs, u.result(j, 1))
		d.out = append(d.out, sequence{time: u.axis[j], kept: true, reversed: u.outward[j]})
	}
	return d, nil
}

// inputs lists the steps of sequences that step k reads, in an order that is the same for all steps. Values that are
// the same step of the same sequence are aliases of the first of them.
func (u *unrolled) inputs(k int) (list []*ir.Value, alias map[*ir.Value]*ir.Value) {
	var all []*ir.Value
	for v, l := range u.leaves {
		if u.step(l.at) == k {
			all = append(all, v)
		}
	}
	kept := func(l leaf) int {
		if l.kept {
			return 1
		}
		return 0
	}
	order := func(a, b *ir.Value) int {
		x, y := u.leaves[a], u.leaves[b]
		return cmp.Or(cmp.Compare(x.v.Name, y.v.Name), cmp.Compare(x.axis, y.axis), cmp.Compare(kept(x), kept(y)))
	}
	slices.SortFunc(all, func(a, b *ir.Value) int { return cmp.Or(order(a, b), cmp.Compare(a.Name, b.Name)) })
	alias = map[*ir.Value]*ir.Value{}
	for _, v := range all {
		if n := len(list); n > 0 && order(list[n-1], v) == 0 {
			alias[v] = list[n-1]
			continue
		}
		list = append(list, v)
	}
	return list, alias
}

// read reads every step according to cell c, which describes step 1, and compares them.
func (u *unrolled) read(g *ir.Graph, c *cell, d *draft, states [][]*ir.Value) (*recurrence, error) {
	sys, err := c.read()
	if err != nil {
		return nil, err
	}
	ev := regions.Constants(u.run, c.bind)
	at := func(k int) (*cell, error) {
		e := &cell{run: u.run, samples: c.samples, bind: c.bind, eval: ev}
		if k > 0 {
			if len(states[k]) != len(c.states) {
				return nil, fmt.Errorf("step %d keeps %d values, step 1 keeps %d", k, len(states[k]), len(c.states))
			}
			for i, v := range states[k] {
				if !ir.EqualTypes(v.Type, c.states[i].v.Type) {
					return nil, fmt.Errorf("step %d keeps values of other shapes than step 1", k)
				}
				e.states = append(e.states, slot{v, c.states[i].shape, c.states[i].batch})
			}
		}
		in, alias := u.inputs(k)
		e.alias = alias
		if len(in) != len(c.inputs) {
			return nil, fmt.Errorf("step %d reads %d values of its inputs, step 1 reads %d", k, len(in), len(c.inputs))
		}
		for i, v := range in {
			e.inputs = append(e.inputs, slot{v, c.inputs[i].shape, c.inputs[i].batch})
		}
		if k+1 < u.steps {
			e.next = states[k+1]
			if len(e.next) != len(c.states) {
				return nil, fmt.Errorf("step %d passes %d values on, step 1 passes %d", k, len(e.next), len(c.states))
			}
		}
		for j := range u.joins {
			e.outputs = append(e.outputs, u.result(j, k))
		}
		return e, nil
	}
	for k := 2; k < u.steps-1; k++ {
		e, err := at(k)
		if err != nil {
			return nil, err
		}
		s, err := e.read()
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", k, err)
		}
		if why := sys.differs(s); why != "" {
			return nil, fmt.Errorf("step %d differs from step 1: %s", k, why)
		}
	}
	r := &recurrence{cell: c, inputs: d.in, outputs: d.out, initial: make([]*ir.Value, len(c.states)),
		final: make([]bool, len(c.states)), elem: d.inputs[0].v.Elem()}
	e, err := at(0)
	if err != nil {
		return nil, err
	}
	if err := u.first(e, c, sys, r); err != nil {
		return nil, err
	}
	if e, err = at(u.steps - 1); err != nil {
		return nil, err
	}
	if err := u.last(g, e, sys, d, r); err != nil {
		return nil, err
	}
	var keep []bool
	for i, s := range c.states {
		for range s.size() {
			keep = append(keep, r.initial[i] != nil || r.final[i])
		}
	}
	r.plan, err = newPlan(u.run, sys, keep)
	return r, err
}

// closeTo allows for sums in another order.
func closeTo(a, b float64) bool {
	return math.Abs(a-b) <= 1e-12*max(1e-30, math.Abs(a), math.Abs(b))
}

// differs returns the first difference from another system, or "" if there is none.
func (s *system) differs(o *system) string {
	why := ""
	rows := func(what string, a, b [][]linear.Term) {
		for i := range max(len(a), len(b)) {
			if why != "" {
				return
			}
			if i >= len(a) || i >= len(b) {
				why = fmt.Sprintf("%s has %d rows, expected %d", what, len(b), len(a))
				return
			}
			if j, x, y, same := sameRow(a[i], b[i]); !same {
				why = fmt.Sprintf("%s[%d,%d] is %.6g, expected %.6g", what, i, j, y, x)
			}
		}
	}
	bias := func(what string, a, b []float64) {
		for i := range min(len(a), len(b)) {
			if why == "" && !closeTo(a[i], b[i]) {
				why = fmt.Sprintf("%s[%d] is %.6g, expected %.6g", what, i, b[i], a[i])
			}
		}
	}
	rows("the matrix of states", s.a, o.a)
	rows("the matrix of inputs", s.b, o.b)
	bias("the bias", s.bias, o.bias)
	for i, x := range s.outputs {
		y := o.outputs[i]
		rows("the matrix from states to results", x.next, y.next)
		rows("the matrix from states before the step to results", x.prev, y.prev)
		rows("the matrix from inputs to results", x.in, y.in)
		bias("the results' bias", x.bias, y.bias)
	}
	return why
}

// sameRow returns the first index at which two rows differ, with both numbers.
func sameRow(a, b []linear.Term) (at int32, x, y float64, same bool) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].At < b[0].At:
			return a[0].At, a[0].Coef, 0, false
		case len(a) == 0 || b[0].At < a[0].At:
			return b[0].At, 0, b[0].Coef, false
		case !closeTo(a[0].Coef, b[0].Coef):
			return a[0].At, a[0].Coef, b[0].Coef, false
		}
		a, b = a[1:], b[1:]
	}
	return 0, 0, 0, true
}

// folded returns output i as a function of the state before the step and the input, as a dense row over both, with the
// bias as its last element.
func (s *system) folded(i int) [][]float64 {
	o := s.outputs[i]
	out := make([][]float64, len(o.in))
	for r := range out {
		row := make([]float64, s.n+s.h+1)
		for _, t := range o.prev[r] {
			row[t.At] += t.Coef
		}
		for _, t := range o.in[r] {
			row[s.n+int(t.At)] += t.Coef
		}
		row[s.n+s.h] = o.bias[r]
		for _, t := range o.next[r] {
			for _, q := range s.a[t.At] {
				row[q.At] += t.Coef * q.Coef
			}
			for _, q := range s.b[t.At] {
				row[s.n+int(q.At)] += t.Coef * q.Coef
			}
			row[s.n+s.h] += t.Coef * s.bias[t.At]
		}
		out[r] = row
	}
	return out
}

// near compares rows of sums that were computed in another order.
func near(a, b [][]float64) bool {
	return slices.EqualFunc(a, b, func(x, y []float64) bool {
		scale := 1e-30
		for i := range x {
			scale = max(scale, math.Abs(x[i]))
		}
		return slices.EqualFunc(x, y, func(p, q float64) bool { return math.Abs(p-q) <= 1e-12*scale })
	})
}

// first finds the state before step 0: zeros, or the values that step 0 reads instead of the state.
func (u *unrolled) first(e, c *cell, sys *system, r *recurrence) error {
	for _, s := range c.states {
		e.states = append(e.states, slot{&ir.Value{Name: s.v.Name}, s.shape, s.batch}) // unused
	}
	e.eval = nil // the values that replace the state vary here
	if s, err := e.read(); err == nil && !slices.ContainsFunc(s.a,
		func(row []linear.Term) bool { return len(row) > 0 }) {
		s.a = sys.a
		for i := range s.outputs {
			s.outputs[i].prev = sys.outputs[i].prev
		}
		if sys.differs(s) == "" {
			return nil
		}
	}
	var found []*ir.Value
	var why error
	var try func(i int) bool
	tries := 0
	try = func(i int) bool {
		if i == len(c.states) {
			if tries++; tries > maxTries {
				return false
			}
			s, err := e.read()
			if err != nil {
				why = err
				return false
			}
			return sys.differs(s) == ""
		}
		for _, v := range u.given() {
			if !ir.EqualTypes(v.Type, c.states[i].v.Type) || slices.Contains(found, v) {
				continue
			}
			e.states[i].v = v
			found = append(found, v)
			if try(i + 1) {
				return true
			}
			found = found[:len(found)-1]
		}
		return false
	}
	if !try(0) {
		if why != nil {
			return fmt.Errorf("step 0: %w", why)
		}
		return errors.New("step 0 differs from step 1 with zeros or other values instead of the state")
	}
	r.initial = found
	return nil
}

// maxTries is the maximum number of assignments of values to the states before step 0.
const maxTries = 64

// given lists the values that depend on no step and that step 0 reads.
func (u *unrolled) given() []*ir.Value {
	var out []*ir.Value
	for _, n := range u.nodes {
		if u.late[n] > 0 {
			continue
		}
		for _, v := range n.Inputs {
			if _, varies := u.key[v]; v != nil && !varies && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// last checks the last step, whose state may be used only outside, and finds the values that are used.
func (u *unrolled) last(g *ir.Graph, e *cell, sys *system, d *draft, r *recurrence) error {
	results := len(e.outputs)
	wanted, err := u.wanted(g)
	if err != nil {
		return err
	}
	e.outputs = append(e.outputs, wanted...)
	s, err := e.read()
	if err != nil {
		return fmt.Errorf("the last step: %w", err)
	}
	for i := range results {
		if !near(sys.folded(i), s.folded(i)) {
			return errors.New("the last step differs from step 1")
		}
	}
	for i, v := range wanted {
		rows, at, found := s.folded(results+i), 0, false
		for j, st := range r.cell.states {
			next := sys.next(at, st.size())
			if !found && d.final[j] == nil && s.outputs[results+i].at.batch == st.batch && near(next, rows) {
				d.final[j], r.final[j], found = v, true, true
			}
			at += st.size()
		}
		if !found {
			return fmt.Errorf("%s is used outside of the steps, and is not a state", v.Name)
		}
	}
	return nil
}

// next returns the rows of the states from index at on, in the form of folded.
func (s *system) next(at, size int) [][]float64 {
	out := make([][]float64, size)
	for r := range out {
		row := make([]float64, s.n+s.h+1)
		for _, t := range s.a[at+r] {
			row[t.At] = t.Coef
		}
		for _, t := range s.b[at+r] {
			row[s.n+int(t.At)] = t.Coef
		}
		row[s.n+s.h] = s.bias[at+r]
		out[r] = row
	}
	return out
}

// wanted lists the values of the region that are used outside of it and its joins. They must be of the last step.
func (u *unrolled) wanted(g *ir.Graph) ([]*ir.Value, error) {
	var out []*ir.Value
	uses := g.Uses()
	for _, n := range u.nodes {
		for _, v := range n.Outputs {
			key, varies := u.key[v]
			_, isLeaf := u.leaves[v]
			if v == nil || !varies || isLeaf {
				continue
			}
			_, elsewhere := regions.Elsewhere(uses[v], func(n *ir.Node) bool {
				return u.inside[n] || slices.Contains(u.joins, n)
			})
			if !elsewhere {
				continue
			}
			if key != u.steps-1 {
				return nil, fmt.Errorf(
					"%s, of step %d, is used outside of the steps; expected values of the last step only", v.Name, key)
			}
			out = append(out, v)
		}
	}
	return out, nil
}
