package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// build returns the binding with the new steps.
func (t *layouts) build() *Binding {
	for _, v := range t.d.Program.Inputs {
		t.toRows(v, nil)
	}
	for _, s := range t.d.Program.Steps {
		f := t.forms[s]
		switch {
		case t.gone[s]:
		case f == nil:
			t.keep(s)
		case f.alias:
			t.alias(s, f)
		case f.Kind == RowsCut:
			for _, p := range f.parts {
				one := &form{OnRows: f.OnRows, in: f.in, out: p.out}
				one.From = p.from
				t.add(s, one, []*Value{t.asRows(f.in[0])})
			}
		case f.Kind == RowsAlone:
			in := slices.Clone(s.In)
			for i, v := range f.in {
				if v != nil {
					in[i] = t.asRows(v)
				}
			}
			t.add(s, f, in)
		default:
			in := make([]*Value, len(f.in))
			for i, v := range f.in {
				in[i] = t.asRows(v)
			}
			t.add(s, f, in)
		}
	}
	return t.d.Rewrite(t.steps, t.more, t.facts)
}

// keep appends a step of the program, and transposes for its outputs that become rows. A step that transposes a
// sequence is marked as such, so that backends can compute it tile by tile.
func (t *layouts) keep(s *Step) {
	if !t.d.Dead(s) && len(s.Out) == 1 && t.d.timeAxis(s.Out[0]) > 0 && len(t.d.Shape(s.Out[0])) == 3 && t.swaps(s) {
		switch t.d.timeAxis(s.In[0]) {
		case 1:
			t.transpose(s, FromRows, s.In[0], s.Out[0])
			return
		case 2:
			t.transpose(s, ToRows, s.In[0], s.Out[0])
			return
		}
	}
	t.steps = append(t.steps, s)
	for _, v := range s.Out {
		t.toRows(v, s)
	}
}

// add appends a step that computes the form f of s from in, and a transpose if f.out is also needed in the layout
// of the graph.
func (t *layouts) add(s *Step, f *form, in []*Value) {
	q := renewed(s, in, []*Value{t.asRows(f.out)}, t.constant)
	q.Rows, q.Alone = &f.OnRows, f.fact(s)
	t.backend.Make(q)
	t.steps = append(t.steps, q)
	if t.flip[f.out] && t.asIs(f.out) {
		t.transpose(s, FromRows, t.rows[f.out], f.out)
	}
}

// fact returns Step.Alone of a form of s.
func (f *form) fact(s *Step) ir.Fact {
	fact := s.Alone
	by := int64(f.Shift) * max(1, fact.Stride)
	fact.Axis = 1
	switch f.Kind {
	case RowsWindow:
		fact.Back, fact.Ahead = max(0, fact.Back-by), max(0, fact.Ahead+by)
	case RowsShift:
		fact.Back, fact.Ahead = max(0, -by), max(0, by)
	}
	return fact
}

// asRows returns the value that has the rows of v.
func (t *layouts) asRows(v *Value) *Value {
	if t.d.timeAxis(v) == 1 {
		return v
	}
	if x := t.rows[v]; x != nil {
		return x
	}
	for _, s := range t.d.Readers(v) { // a transposed sequence of the graph has the rows
		if f := t.forms[s]; f != nil && f.alias && !t.gone[s] {
			t.rows[v] = f.out
			return f.out
		}
	}
	fact := t.d.Program.Fact(v)
	fact.Axis = 1
	x := t.value(&Value{Name: v.Name}, t.asRowShape(v), fact)
	t.rows[v] = x
	return x
}

// value adds x, a float32 value of the given shape.
func (t *layouts) value(x *Value, shape []int, fact ir.Fact) *Value {
	x.ID, x.Type = len(t.d.Program.Values)+len(t.more), TypeOf(tensor.Float32, shape)
	t.more, t.facts = append(t.more, x), append(t.facts, fact)
	return x
}

// constant adds a constant or settled value, as v is, with its elements in k.
func (t *layouts) constant(v *Value, k *tensor.Tensor) *Value {
	return t.value(fixedAs(v, k), k.Shape(), ir.Fact{})
}

// transpose appends a step that transposes in to the other layout. Messages name it as of.
func (t *layouts) transpose(of *Step, how RowKind, in, out *Value) {
	s := &Step{Node: of.Node, Source: of.Source, Group: of.Group, In: []*Value{in}, Out: []*Value{out}, Impl: of.Impl}
	s.Rows = &OnRows{Kind: how}
	t.backend.Make(s)
	t.steps = append(t.steps, s)
}

// toRows appends a transpose of v to rows, if v becomes rows. The step of computes v; nil for inputs of the program.
func (t *layouts) toRows(v *Value, of *Step) {
	if v == nil || !t.flip[v] {
		return
	}
	if of == nil {
		of = t.d.Readers(v)[0] // for messages
	}
	t.transpose(of, ToRows, v, t.asRows(v))
}

// alias replaces a step that transposes a sequence to or from rows: its input and output share their rows.
func (t *layouts) alias(s *Step, f *form) {
	in, out := f.in[0], f.out
	if t.d.timeAxis(in) == 1 {
		t.rows[out] = in
		if t.asIs(out) {
			t.steps = append(t.steps, s)
		}
		return
	}
	if x := t.asRows(in); x != out { // the rows of in are another transposed sequence
		t.add(s, &form{OnRows: OnRows{Kind: RowsJoin}, out: out}, []*Value{x})
	}
}
