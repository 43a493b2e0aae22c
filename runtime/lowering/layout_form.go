package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// form returns the form of a step, or nil if it has none.
func (t *layouts) form(s *Step) *form {
	if len(s.Out) == 0 || t.d.timeAxis(s.Out[0]) == 0 || len(s.In) == 0 {
		return nil
	}
	switch op := s.Node.Op; {
	case op.Sums != nil:
		return t.sum(s)
	case op.Moves != nil:
		if t.d.timeAxis(s.In[0]) > 0 && t.swaps(s) {
			return &form{in: s.In[:1], out: s.Out[0], alias: true}
		}
		if f := t.shift(s); f != nil {
			return f
		}
		return t.features(s)
	case op.Element != nil:
		return t.elementwise(s)
	}
	if t.backend.Looks(s) {
		return t.window(s)
	}
	return nil
}

// takes returns f if the backend computes it, and nil otherwise. All inputs of f are sequences of three axes.
func (t *layouts) takes(s *Step, f *form) *form {
	in := make([][]int, len(f.in))
	for i, v := range f.in {
		in[i] = t.asRowShape(v)
	}
	if !t.backend.Takes(t.d, s, &f.OnRows, in, t.asRowShape(f.out)) {
		return nil
	}
	return f
}

// swaps reports whether a step only exchanges the last two of three axes.
func (t *layouts) swaps(s *Step) bool {
	p := t.moves(s)
	return len(s.Out) == 1 && len(p) == 1 && slices.Equal(p[0].Axes, []int{0, 2, 1}) &&
		slices.Equal(p[0].From, []int{0, 0, 0})
}

// movedAlong returns the sequence x that is the only piece of a step's only output, moved along the axis: index o of
// the output is index o+by of x, or zero if x has no such index.
func (t *layouts) movedAlong(s *Step, axis int) (x *Value, by int, ok bool) {
	pieces := t.moves(s)
	if len(pieces) != 1 || len(s.Out) != 1 || s.Out[0] == nil {
		return nil, 0, false
	}
	p := pieces[0]
	x = s.In[p.Input]
	in, out := t.d.Shape(x), t.d.Shape(s.Out[0])
	by, ok = p.Along(axis)
	return x, by, ok && in != nil && sameBut(in, out, axis)
}

// movedInTime is movedAlong for the axis of time of x.
func (t *layouts) movedInTime(s *Step) (x *Value, by int, ok bool) {
	if pieces := t.moves(s); len(pieces) == 1 {
		if axis := t.d.timeAxis(s.In[pieces[0].Input]); axis > 0 {
			return t.movedAlong(s, axis)
		}
	}
	return nil, 0, false
}

// sameBut reports whether two shapes are equal off the axis.
func sameBut(a, b []int, axis int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if i != axis && a[i] != b[i] {
			return false
		}
	}
	return true
}

// window returns the form of a step that may look along its only sequence. If the sequence is (samples, features,
// steps) in the graph, the form includes a Pad with zeros before the step and a Slice after it.
func (t *layouts) window(s *Step) *form {
	i := t.sequence(s)
	if i < 0 || t.d.timeAxis(s.In[i]) != t.d.timeAxis(s.Out[0]) || len(s.Out) != 1 || len(t.d.Shape(s.In[i])) != 3 {
		return nil
	}
	x, y, f := s.In[i], s.Out[0], &form{OnRows: OnRows{Kind: RowsWindow, Input: i}}
	if t.d.timeAxis(x) == 1 {
		return t.windowOf(s, f, x, y)
	}
	if next := t.d.Sole(y); next != nil {
		if _, by, ok := t.movedInTime(next); ok && by >= 0 && by+t.d.Shape(next.Out[0])[2] <= t.length(y) {
			y, f.Shift, f.next = next.Out[0], by, next
		}
	}
	if p := t.made[x]; p != nil && !t.gone[p] {
		if from, by, ok := t.movedInTime(p); ok && by <= 0 && t.length(from)-by <= t.length(x) {
			padded := *f
			padded.Padded, padded.Shift = true, f.Shift+by
			if g := t.windowOf(s, &padded, from, y); g != nil {
				return g
			}
		}
	}
	return t.windowOf(s, f, x, y)
}

// windowOf returns f, a window over x that computes y, or nil if the lengths of x and y differ, or the backend does
// not compute it.
func (t *layouts) windowOf(s *Step, f *form, x, y *Value) *form {
	if t.d.timeAxis(x) != t.d.timeAxis(y) || t.length(x) != t.length(y) || t.d.Shape(x)[0] != t.d.Shape(y)[0] {
		return nil
	}
	f.in, f.out = []*Value{x}, y
	if f = t.takes(s, f); f != nil && f.next != nil {
		t.gone[f.next] = true
	}
	return f
}

// sequence returns the index of the only input of a step that varies along time, or -1 if there is none or more than
// one, or if it is not a sequence.
func (t *layouts) sequence(s *Step) int {
	found := -1
	for i, v := range s.In {
		if v == nil || t.d.Constant(v) != nil || t.d.Program.Fact(v).Constant() {
			continue
		}
		if found >= 0 || t.d.timeAxis(v) == 0 {
			return -1
		}
		found = i
	}
	return found
}

// shift returns the form of a step that, together with the step before it, moves a sequence along time and keeps
// its length: a Slice of a Pad, or a Pad of a Slice.
func (t *layouts) shift(s *Step) *form {
	between, by, ok := t.movedInTime(s)
	if !ok || t.made[between] == nil || t.gone[t.made[between]] {
		return nil
	}
	x, first, ok := t.movedInTime(t.made[between])
	if !ok {
		return nil
	}
	y, shape := s.Out[0], t.d.Shape(x)
	if t.d.timeAxis(x) != t.d.timeAxis(y) || len(shape) != 3 || !slices.Equal(shape, t.d.Shape(y)) {
		return nil
	}
	length, total := t.length(x), first+by
	if max(total, -total) >= length {
		return nil
	}
	// Each step of x that the shift keeps must be a step of the sequence in between, because a Pad does not restore
	// what a Slice removed.
	if from, to := max(0, -total), min(length, length-total); from+by < 0 || to+by > t.length(between) {
		return nil
	}
	return t.takes(s, &form{OnRows: OnRows{Kind: RowsShift, Shift: total}, in: []*Value{x}, out: y})
}

// sum returns the form of a running sum that runs forward in time.
func (t *layouts) sum(s *Step) *form {
	x := s.In[0]
	if t.d.timeAxis(x) == 0 || len(t.d.Shape(x)) != 3 {
		return nil
	}
	sum, ok := t.d.sums(s)
	if !ok || sum.Axis != t.d.timeAxis(x) || sum.Reverse {
		return nil
	}
	return t.takes(s, &form{OnRows: OnRows{Kind: RowsSum, Exclusive: sum.Exclusive}, in: s.In[:1], out: s.Out[0]})
}

// features returns the form of a step that cuts or joins features.
func (t *layouts) features(s *Step) *form {
	axis := t.d.timeAxis(s.Out[0])
	pieces := t.moves(s)
	fits := func(v *Value) bool { return len(t.d.Shape(v)) == 3 && t.d.timeAxis(v) == axis }
	if !fits(s.Out[0]) || len(pieces) == 0 {
		return nil
	}
	feature := 3 - axis
	for _, p := range pieces {
		x, y := s.In[p.Input], s.Out[p.Output]
		if _, ok := p.Along(feature); !ok || !fits(x) || !fits(y) || !sameBut(t.d.Shape(x), t.d.Shape(y), feature) {
			return nil
		}
	}
	if len(s.Out) == 1 && len(pieces) > 1 {
		return t.join(s, pieces, feature)
	}
	f := &form{OnRows: OnRows{Kind: RowsCut}, in: []*Value{s.In[pieces[0].Input]}, out: s.Out[0]}
	width := t.d.Shape(f.in[0])[feature]
	for _, p := range pieces {
		from := p.From[feature]
		if s.In[p.Input] != f.in[0] || from < 0 || from+t.d.Shape(s.Out[p.Output])[feature] > width {
			return nil
		}
		f.parts = append(f.parts, cut{s.Out[p.Output], from})
	}
	return f
}

// join returns the form of a step that concatenates the features of all its inputs in order.
func (t *layouts) join(s *Step, pieces []ir.Piece, feature int) *form {
	at := 0
	for i, p := range pieces {
		if p.Input != i || p.From[feature] != -at {
			return nil
		}
		at += t.d.Shape(s.In[i])[feature]
	}
	if len(pieces) != len(s.In) || at != t.d.Shape(s.Out[0])[feature] {
		return nil
	}
	return &form{OnRows: OnRows{Kind: RowsJoin}, in: s.In, out: s.Out[0]}
}

// elementwise returns the form of an elementwise operator whose operands are sequences of the output's samples and
// steps, and constants that are the same for all steps.
func (t *layouts) elementwise(s *Step) *form {
	if t.d.timeAxis(s.Out[0]) != 2 || len(s.Out) != 1 {
		return nil
	}
	f := &form{OnRows: OnRows{Kind: RowsAlone}, out: s.Out[0], in: make([]*Value, len(s.In))}
	out, in := t.d.Shape(s.Out[0]), make([][]int, len(s.In))
	for i, v := range s.In {
		switch {
		case v == nil:
		case v.Fixed() != nil:
			k := v.Fixed()
			if n := k.Len(); n != 1 && !(n == out[1] && PerChannel(k.Shape(), out)) {
				return nil
			}
			in[i] = []int{k.Len()}
		case t.d.timeAxis(v) == 2 && t.d.Shape(v)[0] == out[0] && t.length(v) == out[2]:
			f.in[i], in[i] = v, t.asRowShape(v)
		default:
			return nil
		}
	}
	trial := renewed(s, s.In, s.Out, func(v *Value, k *tensor.Tensor) *Value { return fixedAs(v, k) })
	if !t.backend.Takes(t.d, trial, &f.OnRows, in, t.asRowShape(f.out)) {
		return nil
	}
	return f
}

// fixedAs returns a constant or settled value as v is, with the elements of v in the tensor k.
func fixedAs(v *Value, k *tensor.Tensor) *Value {
	w := &Value{Name: v.Name, Type: v.Type, updated: v.updated}
	if v.Const != nil {
		w.Const = k
	} else {
		w.Settled, w.of = k, v.settled()
	}
	return w
}

// renewed returns a copy of s with other inputs and outputs. The function constant makes the constant and settled
// values, of elements k, which have one axis.
func renewed(s *Step, in, out []*Value, constant func(v *Value, k *tensor.Tensor) *Value) *Step {
	q := &Step{Node: s.Node, Source: s.Source, Group: s.Group, Alone: s.Alone, Impl: s.Impl,
		In: slices.Clone(in), Out: out}
	for i, v := range q.In {
		if v == nil || v.Fixed() == nil || v.Fixed().DType() != tensor.Float32 {
			continue
		}
		k := v.Fixed()
		q.In[i] = constant(v, tensor.FromSlice(tensor.Data[float32](k), k.Len()))
	}
	return q
}
