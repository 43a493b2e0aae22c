package lowering

import "slices"

// choose decides which sequences become rows, and reports whether anything changes. Sequences that forms connect
// become rows together, if their forms include a window or sum for every two transposes at the borders.
func (t *layouts) choose() bool {
	steps, least := t.d.Program.Steps, t.backend.LeastSteps()
	sets := components{}
	natural := 0 // windows and sums on sequences that are rows in the graph
	for _, s := range steps {
		f := t.forms[s]
		if f == nil {
			continue
		}
		f.flips = t.flips(f)
		for _, v := range f.flips[min(1, len(f.flips)):] {
			sets.join(v, f.flips[0])
		}
		if f.looks() && len(f.flips) == 0 && t.length(f.out) >= least {
			natural++
		}
	}
	gains, borders := map[*Value]int{}, map[*Value]int{}
	for _, s := range steps {
		if f := t.forms[s]; f != nil && f.looks() && len(f.flips) > 0 && t.length(f.out) >= least {
			gains[sets.find(f.flips[0])]++
		}
	}
	t.settle()
	for v := range sets {
		borders[sets.find(v)] += t.borders(v)
	}
	for v := range sets {
		if c := sets.find(v); gains[c] > 0 && borders[c] <= 2*gains[c] {
			t.flip[v] = true
		}
	}
	for s, f := range t.forms {
		if len(f.flips) > 0 && !t.flip[f.flips[0]] {
			delete(t.forms, s)
		}
	}
	t.settle()
	return natural > 0 || len(t.flip) > 0
}

// flips returns the sequences of a form that are not rows in the graph.
func (t *layouts) flips(f *form) (all []*Value) {
	add := func(v *Value) {
		if t.d.timeAxis(v) == 2 {
			all = append(all, v)
		}
	}
	for _, v := range f.in {
		add(v)
	}
	add(f.out)
	for _, p := range f.parts {
		add(p.out)
	}
	return all
}

// settle finds the steps whose results have no readers, since they are part of other steps' forms.
func (t *layouts) settle() {
	d := t.d
	t.gone = map[*Step]bool{}
	read := map[*Value]bool{}
	for _, v := range d.Program.Outputs {
		read[v] = true
	}
	for _, s := range slices.Backward(d.Program.Steps) {
		f := t.forms[s]
		live := f != nil && read[f.out]
		for _, v := range s.Out {
			live = live || v != nil && (read[v] || len(d.Readers(v)) == 0)
		}
		switch {
		case !live:
			t.gone[s] = true
		case f == nil:
			for v := range s.Reads {
				read[v] = true
			}
		default:
			for _, v := range f.in {
				read[v] = true
			}
		}
	}
	for _, f := range t.forms {
		if f.next != nil && read[f.out] {
			t.gone[f.next] = true
		}
	}
}

// borders returns an upper bound for the number of transposes that a sequence needs.
func (t *layouts) borders(v *Value) (n int) {
	if s := t.made[v]; s == nil || t.forms[s] == nil && !t.gone[s] {
		n++
	}
	if t.asIs(v) {
		n++
	}
	return n
}

// asIs reports whether v is needed in the layout of the graph.
func (t *layouts) asIs(v *Value) bool {
	d := t.d
	if d.Leaves(v) {
		return true
	}
	for _, s := range d.Readers(v) {
		if f := t.forms[s]; !t.gone[s] && (f == nil || !slices.Contains(f.in, v)) {
			return true
		}
		if slices.ContainsFunc(s.Captures, func(c Capture) bool { return c.Outer == v }) {
			return true
		}
	}
	return false
}

// components are disjoint sets of values. Each value points to another value of its set, and one points to itself.
type components map[*Value]*Value

// find returns the value that represents the set of v.
func (c components) find(v *Value) *Value {
	if p := c[v]; p != nil && p != v {
		c[v] = c.find(p)
		return c[v]
	}
	c[v] = v
	return v
}

// join unites the sets of a and b.
func (c components) join(a, b *Value) { c[c.find(a)] = c.find(b) }
