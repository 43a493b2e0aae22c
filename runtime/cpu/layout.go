package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Exported graphs keep sequences as (samples, features, steps) around their convolutions, transpose them for what works on features,
// and write a look back as a Pad before, or a Slice behind. Tiles along time want rows: the features of a step side by side.
// So, where a graph declares its time and steps look along it, a binding is seen with those sequences as rows: the steps between
// are made anew, what only transposed is gone, and where a step knows one layout only, one that transposes stands before or behind it.
// Values are those of the graph, so nothing of this is seen from outside.

// fewestSteps is how long sequences are for which this is done.
const fewestSteps = 2 * record.LargestTile

// relayout is a binding on its way to time-major sequences.
type relayout struct {
	d    *binding
	made map[*lowering.Value]*lowering.Step
	// how says what stands in place of a step; the steps in gone are part of others.
	how  map[*lowering.Step]*rewritten
	gone map[*lowering.Step]bool
	flip map[*lowering.Value]bool // sequences that become rows

	more  []*lowering.Value // besides those of the program
	facts []ir.Fact         // theirs
	steps []*lowering.Step
	rows  map[*lowering.Value]*lowering.Value // of flip: the value that has the rows
}

// rewritten is a step as it works on rows.
type rewritten struct {
	in    []*lowering.Value // what it reads along time
	out   *lowering.Value
	win   *record.WindowedOp
	sums  *record.Sums
	row   func(s *lowering.Step) record.RowMaker // in place of win, for inputs in the order of the operator's
	alias bool                                   // nothing is left to do
	parts []int                                  // in place of row: the first feature of each output
	over  []*lowering.Step                       // steps before that are part of it
	next  *lowering.Step                         // a step behind that is part of it
}

// timeMajor gives the binding with sequences as rows where steps look back or ahead along time, or d itself.
func (d *binding) timeMajor() *binding {
	if !d.p.Timed() || d.Err() != nil || !slices.ContainsFunc(d.p.Steps, d.looks) {
		return d
	}
	t := &relayout{d: d, made: map[*lowering.Value]*lowering.Step{}, how: map[*lowering.Step]*rewritten{}, gone: map[*lowering.Step]bool{}, flip: map[*lowering.Value]bool{}, rows: map[*lowering.Value]*lowering.Value{}}
	for _, s := range d.p.Steps {
		for _, v := range s.Out {
			if v != nil {
				t.made[v] = s
			}
		}
	}
	for _, s := range d.p.Steps {
		if !d.Dead(s) && !t.gone[s] && len(s.Captures) == 0 {
			if r := t.rewrite(s); r != nil {
				t.how[s] = r
			}
		}
	}
	if !t.choose() {
		return d
	}
	return t.build()
}

// looks reports whether a step may look along time.
func (d *binding) looks(s *lowering.Step) bool {
	m := &record.Of(s).Record.Moves
	return record.Of(s).Windowed != nil || m.Pad != nil || m.Join != nil || m.Sum != nil
}

// axis gives the axis of time of a float32 sequence of samples: 1, or 2 of 3; 0 for all others.
func (t *relayout) axis(v *lowering.Value) int {
	d := t.d
	if v == nil || v.ID >= len(d.p.Values) || !d.IsFloat32(v) || d.Constant(v) != nil {
		return 0
	}
	_, _, _, ok := d.Along(v)
	shape := d.Shape(v)
	if a := d.p.Fact(v).Axis; ok && len(shape) >= 2 && shape[0] > 0 && shape[a] > 0 && (a == 1 || a == 2 && len(shape) == 3) {
		return a
	}
	return 0
}

// length is that of a sequence.
func (t *relayout) length(v *lowering.Value) int { return t.d.Shape(v)[t.axis(v)] }

// rewrite says how a step works on rows; nil where it does not.
func (t *relayout) rewrite(s *lowering.Step) *rewritten {
	if len(s.Out) == 0 || t.axis(s.Out[0]) == 0 || len(s.In) == 0 {
		return nil
	}
	if record.Of(s).Windowed != nil {
		if r := t.window(s); r != nil {
			return r
		}
	}
	switch m := &record.Of(s).Record.Moves; {
	case m.Permute != nil:
		if t.axis(s.In[0]) > 0 && swaps(s) {
			return &rewritten{in: s.In[:1], out: s.Out[0], alias: true}
		}
		return nil
	case m.Sum != nil:
		return t.running(s)
	case m.Cut != nil, m.Pad != nil, m.Join != nil, m.Split != nil:
		if r := t.shifted(s); r != nil {
			return r
		}
		return t.columns(s)
	}
	if e := record.Of(s).Element; e != nil && e.AnyLayout && t.axis(s.Out[0]) == 2 && len(s.Out) == 1 && record.Of(s).Row != nil {
		return t.elementwise(s)
	}
	return nil
}

// swaps reports whether a step exchanges the last two of three axes.
func swaps(s *lowering.Step) bool {
	permute := record.Of(s).Record.Moves.Permute
	return permute != nil && slices.Equal(permute(s), []int64{0, 2, 1})
}

// window looks for a step that looks along time. One that has a sequence along its last axis may be joined by a step before it
// that adds zeros, and by one behind it that takes steps.
func (t *relayout) window(s *lowering.Step) *rewritten {
	kind := &record.Of(s).Record.Windowed
	x, y := s.In[kind.Input], s.Out[0]
	if kind.Rows {
		if t.axis(x) != 1 || len(t.d.Shape(x)) != 3 || len(s.In) != 2 {
			return nil
		}
		win := record.Of(s).Windowed(t.d.Binding)
		if win == nil || !t.fits(win, x) {
			return nil
		}
		return &rewritten{in: s.In[:1], out: y, win: win}
	}
	if t.axis(x) != 2 || t.axis(y) != 2 {
		return nil
	}
	win := record.Of(s).Windowed(t.d.Binding)
	if win == nil {
		return nil
	}
	shift, r := 0, &rewritten{win: win}
	if p := t.made[x]; p != nil && kind.Pads {
		if begin, _, ok := t.pad(p); ok {
			x, shift, r.over = p.In[0], -begin, []*lowering.Step{p}
		}
	}
	if next := t.sole(y); next != nil {
		if start, ok := t.slice(next); ok {
			y, shift, r.next = next.Out[0], shift+start, next
		}
	}
	if t.axis(x) != 2 || t.axis(y) != 2 || t.length(x) != t.length(y) || t.d.Shape(x)[0] != t.d.Shape(y)[0] {
		return nil
	}
	for i := range win.Offs {
		win.Offs[i] += shift
	}
	if !t.fits(win, x) {
		return nil
	}
	if r.next != nil {
		t.gone[r.next] = true
	}
	r.in, r.out = []*lowering.Value{x}, y
	return r
}

// fits reports whether a ring for the window takes no more than about the sequence x, and a tile no longer than a run may go
// on once it is cancelled.
func (t *relayout) fits(win *record.WindowedOp, x *lowering.Value) bool {
	const farthest = 1 << 30 // places in a ring are 32 bits wide
	shape := t.d.Shape(x)
	width := 1
	for _, n := range shape[1:] {
		width *= n
	}
	width /= t.length(x)
	return win.Back()+win.Ahead() <= t.length(x) && (win.Back()+win.Ahead()+record.LargestTile)*width < farthest && win.Flops*record.SmallestTile <= callFlops
}

// sole gives the only reader of v; nil where there is none or more than one.
func (t *relayout) sole(v *lowering.Value) *lowering.Step {
	d := t.d
	if len(d.Readers(v)) != 1 || d.Leaves(v) || d.Dead(d.Readers(v)[0]) {
		return nil
	}
	return d.Readers(v)[0]
}

// pad reads a step that adds zeros before and behind a sequence, and nothing else.
func (t *relayout) pad(s *lowering.Step) (begin, end int, ok bool) {
	read := record.Of(s).Record.Moves.Pad
	if read == nil || t.axis(s.In[0]) == 0 {
		return 0, 0, false
	}
	before, behind, ok := read(t.d.Binding, s)
	if !ok {
		return 0, 0, false
	}
	for axis := range before {
		if axis != t.axis(s.In[0]) && before[axis]+behind[axis] != 0 {
			return 0, 0, false
		}
	}
	return before[t.axis(s.In[0])], behind[t.axis(s.In[0])], true
}

// slice reads a step that takes consecutive steps of a sequence, and gives the first.
func (t *relayout) slice(s *lowering.Step) (start int, ok bool) {
	axis, start, ok := t.cut(s)
	return start, ok && axis == t.axis(s.In[0])
}

// cut reads a step that takes consecutive places of a sequence along one axis.
func (t *relayout) cut(s *lowering.Step) (axis, start int, ok bool) {
	read := record.Of(s).Record.Moves.Cut
	if read == nil || t.axis(s.In[0]) == 0 || s.Out[0] == nil || t.d.Shape(s.Out[0]) == nil {
		return 0, 0, false
	}
	return read(t.d.Binding, s)
}

// shifted looks for a sequence that is moved along time, with zeros in place of what was before its first step or behind its
// last: a slice of what was padded, a slice that is padded, or zeros joined with a slice.
func (t *relayout) shifted(s *lowering.Step) *rewritten {
	var inner *lowering.Value
	begin, end, start := 0, 0, 0
	switch m := &record.Of(s).Record.Moves; {
	case m.Cut != nil:
		from, ok := t.slice(s)
		p := t.made[s.In[0]]
		if !ok || p == nil {
			return nil
		}
		if begin, _, ok = t.pad(p); !ok {
			return nil
		}
		return t.moved(s, p, from-begin)
	case m.Pad != nil:
		var ok bool
		if begin, end, ok = t.pad(s); !ok {
			return nil
		}
		inner = s.In[0]
	case m.Join != nil:
		axis, ok := m.Join(s, len(t.d.Shape(s.Out[0])))
		if !ok || axis != t.axis(s.Out[0]) || len(s.In) != 2 {
			return nil
		}
		for i, v := range s.In {
			k := t.d.Constant(v)
			switch {
			case k == nil:
				inner = v
			case !record.Zeros(k) || len(t.d.Shape(v)) <= axis:
				return nil
			case i == 0:
				begin = t.d.Shape(v)[axis]
			default:
				end = t.d.Shape(v)[axis]
			}
		}
		if begin+end == 0 {
			return nil
		}
	}
	if inner == nil || t.made[inner] == nil {
		return nil
	}
	start, ok := t.slice(t.made[inner])
	if !ok {
		return nil
	}
	x := t.made[inner].In[0]
	// What the slice has cut off must not come back.
	if !(start == 0 && end == 0) && !(begin == 0 && start+t.length(inner) == t.length(x)) {
		return nil
	}
	return t.moved(s, t.made[inner], start-begin)
}

// moved is the move of what the step over reads.
func (t *relayout) moved(s, over *lowering.Step, by int) *rewritten {
	x, y := over.In[0], s.Out[0]
	in, out := t.d.Shape(x), t.d.Shape(y)
	if t.axis(x) != t.axis(y) || !slices.Equal(in, out) || len(in) != 3 || t.length(x) <= max(by, -by) {
		return nil
	}
	return &rewritten{in: []*lowering.Value{x}, out: y, win: record.Shifted(by, in[3-t.axis(x)]), over: []*lowering.Step{over}}
}

// running looks for a sum along time that goes forward.
func (t *relayout) running(s *lowering.Step) *rewritten {
	x := s.In[0]
	if t.axis(x) == 0 || len(t.d.Shape(x)) != 3 {
		return nil
	}
	axis, exclusive, ok := record.Of(s).Record.Moves.Sum(t.d.Binding, s)
	if !ok || axis != t.axis(x) {
		return nil
	}
	return &rewritten{in: s.In[:1], out: s.Out[0], sums: &record.Sums{Exclusive: exclusive}}
}

// looks reports whether what stands in place of a step looks along time.
func (r *rewritten) looks() bool { return r.win != nil || r.sums != nil }

// columns looks for steps that cut features, or join them.
func (t *relayout) columns(s *lowering.Step) *rewritten {
	var along []*lowering.Value
	for _, v := range slices.Concat(s.In, s.Out) {
		if v == nil || t.d.Constant(v) != nil {
			continue
		}
		if t.axis(v) == 0 || len(t.d.Shape(v)) != 3 || t.axis(v) != t.axis(s.Out[0]) {
			return nil
		}
		along = append(along, v)
	}
	feature := 3 - t.axis(s.Out[0])
	r := &rewritten{in: s.In[:1], out: s.Out[0]}
	switch m := &record.Of(s).Record.Moves; {
	case m.Cut != nil:
		axis, from, ok := t.cut(s)
		if !ok || axis != feature {
			return nil
		}
		r.parts = append(r.parts, from)
	case m.Split != nil:
		if axis, ok := m.Split(s, 3); !ok || axis != feature {
			return nil
		}
		at := 0
		for _, v := range s.Out {
			if v == nil {
				return nil // its width is not known
			}
			r.parts = append(r.parts, at)
			at += t.d.Shape(v)[feature]
		}
		if at != t.d.Shape(s.In[0])[feature] {
			return nil
		}
	case m.Join != nil:
		if axis, ok := m.Join(s, 3); !ok || axis != feature || len(along) != len(s.In)+1 {
			return nil
		}
		r.in, r.row = s.In, func(*lowering.Step) record.RowMaker { return rowJoin }
	default:
		return nil
	}
	return r
}

// elementwise looks for operators on numbers that lie at the same places, or are the same for all steps.
func (t *relayout) elementwise(s *lowering.Step) *rewritten {
	r := &rewritten{out: s.Out[0], in: make([]*lowering.Value, len(s.In))}
	out := t.d.Shape(s.Out[0])
	for i, v := range s.In {
		switch {
		case v == nil:
		case v.Const != nil:
			if n := v.Const.Len(); n != 1 && !(n == out[1] && perChannel(v.Const.Shape(), out)) {
				return nil
			}
		case t.axis(v) == 2 && t.d.Shape(v)[0] == out[0] && t.length(v) == out[2]:
			r.in[i] = v
		default:
			return nil
		}
	}
	r.row = record.Of(s).Element.Row
	in := make([][]int, len(s.In))
	for i, v := range s.In {
		switch {
		case r.in[i] != nil:
			x := t.d.Shape(v)
			in[i] = []int{x[0], x[2], x[1]}
		case v != nil:
			in[i] = []int{v.Const.Len()}
		}
	}
	mk := r.row(renewed(s, s.In, s.Out, func(v *lowering.Value, k *tensor.Tensor) *lowering.Value {
		return &lowering.Value{Name: v.Name, Type: v.Type, Const: k}
	}))
	if mk == nil || mk(in, []int{out[0], out[2], out[1]}) == nil {
		return nil
	}
	return r
}

// renewed is a step like s that reads and writes other values; constant gives the value for a constant that lies along features.
func renewed(s *lowering.Step, in, out []*lowering.Value, constant func(v *lowering.Value, k *tensor.Tensor) *lowering.Value) *lowering.Step {
	q := &lowering.Step{Node: s.Node, Source: s.Source, Group: s.Group, Alone: s.Alone, In: slices.Clone(in), Out: out,
		Impl: &record.Kinds{Record: record.Of(s).Record, Element: record.Of(s).Element, Shared: record.Of(s).Shared, Products: record.Of(s).Products}}
	for i, v := range q.In {
		if v != nil && v.Const != nil && v.Const.DType() == tensor.Float32 {
			q.In[i] = constant(v, tensor.FromSlice(tensor.Data[float32](v.Const), v.Const.Len()))
		}
	}
	return q
}

// choose decides which sequences become rows. Those that steps share, which can work on either layout, go together; they do so
// where enough of these steps look along time to pay for those that transpose sequences at the borders.
func (t *relayout) choose() bool {
	d := t.d
	root := map[*lowering.Value]*lowering.Value{}
	var find func(v *lowering.Value) *lowering.Value
	find = func(v *lowering.Value) *lowering.Value {
		if p := root[v]; p != nil && p != v {
			root[v] = find(p)
			return root[v]
		}
		root[v] = v
		return v
	}
	flips := func(r *rewritten, s *lowering.Step) (all []*lowering.Value) {
		for _, v := range slices.Concat(r.in, []*lowering.Value{r.out}, s.Out) {
			if v != nil && t.axis(v) == 2 && (v == r.out || slices.Contains(r.in, v) || r.parts != nil) {
				all = append(all, v)
			}
		}
		return all
	}
	windows, borders := map[*lowering.Value]int{}, map[*lowering.Value]int{}
	natural := 0
	for _, s := range d.p.Steps {
		r := t.how[s]
		if r == nil {
			continue
		}
		all := flips(r, s)
		for _, v := range all[min(1, len(all)):] {
			root[find(v)] = find(all[0])
		}
		if r.looks() && len(all) == 0 && t.length(r.out) >= fewestSteps {
			natural++
		}
	}
	for _, s := range d.p.Steps {
		if r := t.how[s]; r != nil && r.looks() && t.length(r.out) >= fewestSteps {
			if all := flips(r, s); len(all) > 0 {
				windows[find(all[0])]++
			}
		}
	}
	t.settle()
	for v := range root {
		borders[find(v)] += t.borders(v)
	}
	for v := range root {
		if c := find(v); windows[c] > 0 && borders[c] <= 2*windows[c] {
			t.flip[v] = true
		}
	}
	for s, r := range t.how {
		if all := flips(r, s); len(all) > 0 && !t.flip[all[0]] {
			delete(t.how, s)
		}
	}
	t.settle()
	return natural > 0 || len(t.flip) > 0
}

// settle finds the steps that are part of others, so that nobody is left who reads what they give.
func (t *relayout) settle() {
	d := t.d
	t.gone = map[*lowering.Step]bool{}
	read := map[*lowering.Value]bool{}
	for _, v := range d.p.Outputs {
		read[v] = true
	}
	for _, s := range slices.Backward(d.p.Steps) {
		r := t.how[s]
		live := r != nil && read[r.out]
		for _, v := range s.Out {
			live = live || v != nil && (read[v] || len(d.Readers(v)) == 0)
		}
		switch {
		case !live:
			t.gone[s] = true
		case r == nil:
			for _, v := range s.In {
				read[v] = true
			}
			for _, c := range s.Captures {
				read[c.Outer] = true
			}
		default:
			for _, v := range r.in {
				read[v] = true
			}
		}
	}
	for _, r := range t.how {
		if r.next != nil && read[r.out] {
			t.gone[r.next] = true
		}
	}
}

// borders counts the transposes that a sequence needs at most.
func (t *relayout) borders(v *lowering.Value) (n int) {
	if s := t.made[v]; s == nil || t.how[s] == nil && !t.gone[s] {
		n++
	}
	if t.asIs(v) {
		n++
	}
	return n
}

// asIs reports whether somebody needs v in its own layout.
func (t *relayout) asIs(v *lowering.Value) bool {
	d := t.d
	if d.Leaves(v) {
		return true
	}
	for _, s := range d.Readers(v) {
		if r := t.how[s]; !t.gone[s] && (r == nil || !slices.Contains(r.in, v)) {
			return true
		}
		if slices.ContainsFunc(s.Captures, func(c lowering.Capture) bool { return c.Outer == v }) {
			return true
		}
	}
	return false
}

// build makes the binding.
func (t *relayout) build() *binding {
	d := t.d
	for _, v := range d.p.Inputs {
		t.transposeIn(v, nil)
	}
	for _, s := range d.p.Steps {
		r := t.how[s]
		switch {
		case t.gone[s]:
		case r == nil && t.transposeOf(s) != record.NoTranspose:
			t.addTranspose(s, t.transposeOf(s), s.In[0], s.Out[0])
		case r == nil:
			t.steps = append(t.steps, s)
			for _, v := range s.Out {
				t.transposeIn(v, s)
			}
		case r.alias:
			t.alias(s, r)
		case r.parts != nil:
			for i, from := range r.parts {
				q := renewed(s, []*lowering.Value{t.asRows(r.in[0])}, []*lowering.Value{t.asRows(s.Out[i])}, t.constant)
				record.Of(q).Row, record.Of(q).Columns, q.Alone = rowColumns(from), &record.Columns{From: from}, ir.Fact{}
				t.add(q, s.Out[i])
			}
		case r.win != nil:
			q := renewed(s, []*lowering.Value{t.asRows(r.in[0])}, []*lowering.Value{t.asRows(r.out)}, t.constant)
			record.Of(q).WindowedOp, q.Alone = r.win, ir.Fact{Back: int64(r.win.Back()), Ahead: int64(r.win.Ahead())}
			t.add(q, r.out)
		case r.sums != nil:
			q := renewed(s, []*lowering.Value{t.asRows(r.in[0])}, []*lowering.Value{t.asRows(r.out)}, t.constant)
			record.Of(q).Sums, q.Alone = r.sums, ir.Fact{Back: ir.Unbounded, Summary: true}
			t.add(q, r.out)
		default:
			in := slices.Clone(s.In)
			for i, v := range r.in {
				if v != nil {
					in[i] = t.asRows(v)
				}
			}
			q := renewed(s, in, []*lowering.Value{t.asRows(r.out)}, t.constant)
			record.Of(q).Row = r.row(q)
			t.add(q, r.out)
		}
	}
	p, n := *d.p, d.Rewrite(t.steps, t.more, t.facts)
	p.Program = n.Program
	return &binding{n, &p}
}

// asRows gives the value that has the rows of a sequence.
func (t *relayout) asRows(v *lowering.Value) *lowering.Value {
	if t.axis(v) == 1 {
		return v
	}
	if x := t.rows[v]; x != nil {
		return x
	}
	for _, s := range t.d.Readers(v) { // a transposed sequence of the graph has them
		if r := t.how[s]; r != nil && r.alias && !t.gone[s] {
			t.rows[v] = r.out
			return r.out
		}
	}
	shape := t.d.Shape(v)
	fact := t.d.p.Fact(v)
	fact.Axis = 1
	x := t.value(v, []int{shape[0], shape[2], shape[1]}, fact, nil)
	t.rows[v] = x
	return x
}

// value adds a value that stands for v.
func (t *relayout) value(v *lowering.Value, shape []int, fact ir.Fact, konst *tensor.Tensor) *lowering.Value {
	x := &lowering.Value{ID: len(t.d.p.Values) + len(t.more), Name: v.Name, Type: lowering.TypeOf(tensor.Float32, shape), Const: konst}
	t.more, t.facts = append(t.more, x), append(t.facts, fact)
	return x
}

func (t *relayout) constant(v *lowering.Value, k *tensor.Tensor) *lowering.Value {
	return t.value(v, k.Shape(), ir.Fact{}, k)
}

// add appends a step, and what brings v, which it computes as rows, into the layout of the graph, where somebody needs that.
func (t *relayout) add(s *lowering.Step, v *lowering.Value) {
	t.steps = append(t.steps, s)
	if t.flip[v] && t.asIs(v) {
		t.addTranspose(s, record.FromRows, t.rows[v], v)
	}
}

func (t *relayout) addTranspose(of *lowering.Step, how record.Transpose, in, out *lowering.Value) {
	t.steps = append(t.steps, &lowering.Step{Node: of.Node, Source: of.Source, Group: of.Group, In: []*lowering.Value{in}, Out: []*lowering.Value{out}, Impl: &record.Kinds{Record: record.None, Transpose: how}})
}

// transposeIn brings a sequence that is computed, or given, in the layout of the graph into rows, where it is to be; of is the step
// that computes it.
func (t *relayout) transposeIn(v *lowering.Value, of *lowering.Step) {
	if v == nil || !t.flip[v] {
		return
	}
	if of == nil {
		of = t.d.Readers(v)[0] // for messages
	}
	t.addTranspose(of, record.ToRows, v, t.asRows(v))
}

// transposeOf says how a step of the graph transposes sequences that stay in its layout on one side: tile by tile, too.
func (t *relayout) transposeOf(s *lowering.Step) record.Transpose {
	if t.d.Dead(s) || len(s.Out) != 1 || t.axis(s.Out[0]) == 0 || len(t.d.Shape(s.Out[0])) != 3 || !swaps(s) {
		return record.NoTranspose
	}
	switch t.axis(s.In[0]) {
	case 1:
		return record.FromRows
	case 2:
		return record.ToRows
	}
	return record.NoTranspose
}

// alias leaves out a step that transposes a sequence from or into rows.
func (t *relayout) alias(s *lowering.Step, r *rewritten) {
	in, out := r.in[0], r.out
	if t.axis(in) == 1 {
		t.rows[out] = in
		if t.asIs(out) {
			t.steps = append(t.steps, s)
		}
		return
	}
	if x := t.asRows(in); x != out { // another transposed sequence has the rows
		q := renewed(s, []*lowering.Value{x}, []*lowering.Value{out}, t.constant)
		record.Of(q).Row, q.Alone = record.RowByElement(func(y, x []float32) { copy(y, x) }), ir.Fact{}
		t.steps = append(t.steps, q)
	}
}
