package cpu

import (
	"maps"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Exported graphs keep sequences as (samples, features, steps) around their convolutions, turn them for what works on features,
// and write a look back as a Pad before, or a Slice behind. Tiles along time want rows: the features of a step side by side.
// So, where a graph declares its time and steps look along it, a binding is seen with those sequences as rows: the steps between
// are made anew, what only turned is gone, and where a step knows one layout only, one that turns stands before or behind it.
// Values are those of the graph, so nothing of this is seen from outside.

// fewestSteps is how long sequences are for which this is done.
const fewestSteps = 2 * largestTile

// relayout is a binding on its way to time-major sequences.
type relayout struct {
	d    *binding
	made map[*value]*step
	// how says what stands in place of a step; the steps in gone are part of others.
	how  map[*step]*rewritten
	gone map[*step]bool
	flip map[*value]bool // sequences that become rows

	values []*value
	shapes [][]int
	facts  []ir.Fact
	steps  []*step
	rows   map[*value]*value // of flip: the value that has the rows
}

// rewritten is a step as it works on rows.
type rewritten struct {
	in    []*value // what it reads along time
	out   *value
	win   *window
	sums  *sums
	row   func(s *step) rowMaker // in place of win, for inputs in the order of the operator's
	alias bool                   // nothing is left to do
	parts []int                  // in place of row: the first feature of each output
	over  []*step                // steps before that are part of it
	next  *step                  // a step behind that is part of it
}

// timeMajor gives the binding with sequences as rows where steps look back or ahead along time, or d itself.
func (d *binding) timeMajor() *binding {
	if d.p.time == nil || d.err != nil || !slices.ContainsFunc(d.p.steps, d.looks) {
		return d
	}
	t := &relayout{d: d, made: map[*value]*step{}, how: map[*step]*rewritten{}, gone: map[*step]bool{}, flip: map[*value]bool{}, rows: map[*value]*value{}}
	for _, s := range d.p.steps {
		for _, v := range s.out {
			if v != nil {
				t.made[v] = s
			}
		}
	}
	for _, s := range d.p.steps {
		if !d.dead[s] && !t.gone[s] && len(s.captures) == 0 {
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
func (d *binding) looks(s *step) bool {
	return of(s).windows != nil || s.node.Op.Domain == "" && (s.node.Op.Name == "Pad" || s.node.Op.Name == "Concat" || s.node.Op.Name == "CumSum") || s.node.Op.FullName() == "essm.LongConv"
}

// axis gives the axis of time of a float32 sequence of samples: 1, or 2 of 3; 0 for all others.
func (t *relayout) axis(v *value) int {
	d := t.d
	if v == nil || v.id >= len(d.f32) || !d.f32[v.id] || d.constant(v) != nil {
		return 0
	}
	_, _, _, ok := d.along(v)
	shape := d.shapes[v.id]
	if a := d.p.time[v.id].Axis; ok && len(shape) >= 2 && shape[0] > 0 && shape[a] > 0 && (a == 1 || a == 2 && len(shape) == 3) {
		return a
	}
	return 0
}

// length is that of a sequence.
func (t *relayout) length(v *value) int { return t.d.shapes[v.id][t.axis(v)] }

// rewrite says how a step works on rows; nil where it does not.
func (t *relayout) rewrite(s *step) *rewritten {
	if len(s.out) == 0 || t.axis(s.out[0]) == 0 {
		return nil
	}
	if of(s).windows != nil {
		if r := t.window(s); r != nil {
			return r
		}
	}
	op := s.node.Op
	if op.FullName() == "essm.LongConv" && t.axis(s.in[0]) == 1 && len(t.d.shapes[s.in[0].id]) == 3 && len(s.in) == 2 {
		if win := windowLong(s); win != nil && t.fits(win, s.in[0]) {
			return &rewritten{in: s.in[:1], out: s.out[0], win: win}
		}
	}
	if op.Domain != "" || len(s.in) == 0 {
		return nil
	}
	switch op.Name {
	case "Transpose":
		if perm := s.node.Attrs.Ints("perm", nil); t.axis(s.in[0]) > 0 && slices.Equal(perm, []int64{0, 2, 1}) {
			return &rewritten{in: s.in[:1], out: s.out[0], alias: true}
		}
		return nil
	case "CumSum":
		return t.running(s)
	case "Slice", "Pad", "Concat":
		if r := t.shifted(s); r != nil {
			return r
		}
	}
	switch op.Name {
	case "Split", "Slice", "Concat":
		return t.columns(s)
	}
	if t.axis(s.out[0]) == 2 && len(s.out) == 1 && of(s).row != nil && (unaries[op.Name] != nil || binaries[op.Name] != nil) {
		return t.elementwise(s)
	}
	return nil
}

// window looks for a step that looks along the last axis, with a Pad before it and a Slice behind it that are part of it.
func (t *relayout) window(s *step) *rewritten {
	at := 0
	if s.node.Op.Name == "MatMul" {
		at = 1
	}
	x, y := s.in[at], s.out[0]
	if t.axis(x) != 2 || t.axis(y) != 2 {
		return nil
	}
	win := of(s).windows(t.d)
	if win == nil {
		return nil
	}
	shift, r := 0, &rewritten{win: win}
	if p := t.made[x]; p != nil && s.node.Op.Name == "Conv" {
		if begin, _, ok := t.pad(p); ok {
			x, shift, r.over = p.in[0], -begin, []*step{p}
		}
	}
	if next := t.sole(y); next != nil {
		if start, ok := t.slice(next); ok {
			y, shift, r.next = next.out[0], shift+start, next
		}
	}
	if t.axis(x) != 2 || t.axis(y) != 2 || t.length(x) != t.length(y) || t.d.shapes[x.id][0] != t.d.shapes[y.id][0] {
		return nil
	}
	for i := range win.offs {
		win.offs[i] += shift
	}
	if !t.fits(win, x) {
		return nil
	}
	if r.next != nil {
		t.gone[r.next] = true
	}
	r.in, r.out = []*value{x}, y
	return r
}

// fits reports whether a ring for the window takes no more than about the sequence x, and a tile no longer than a run may go
// on once it is cancelled.
func (t *relayout) fits(win *window, x *value) bool {
	const farthest = 1 << 30 // places in a ring are 32 bits wide
	shape := t.d.shapes[x.id]
	width := 1
	for _, n := range shape[1:] {
		width *= n
	}
	width /= t.length(x)
	return win.back()+win.ahead() <= t.length(x) && (win.back()+win.ahead()+largestTile)*width < farthest && win.flops*smallestTile <= callFlops
}

// sole gives the only reader of v; nil where there is none or more than one.
func (t *relayout) sole(v *value) *step {
	d := t.d
	if len(d.reads[v.id]) != 1 || d.last[v.id] == len(d.p.steps) || d.dead[d.reads[v.id][0]] {
		return nil
	}
	return d.reads[v.id][0]
}

// pad reads a step that adds zeros before and behind a sequence, and nothing else.
func (t *relayout) pad(s *step) (begin, end int, ok bool) {
	if s.node.Op.FullName() != "Pad" || s.node.Attrs.Str("mode", "constant") != "constant" || t.axis(s.in[0]) == 0 || len(s.captures) > 0 {
		return 0, 0, false
	}
	rank := len(t.d.shapes[s.in[0].id])
	pads, ok := t.d.ints(s, 1)
	if !ok {
		return 0, 0, false
	}
	if !s.absent(2) {
		fill := t.d.constant(s.in[2])
		if fill == nil || !zeros(fill) {
			return 0, 0, false
		}
	}
	axes := make([]int64, rank)
	for i := range axes {
		axes[i] = int64(i)
	}
	if !s.absent(3) {
		if axes, ok = t.d.ints(s, 3); !ok {
			return 0, 0, false
		}
	}
	if len(pads) != 2*len(axes) {
		return 0, 0, false
	}
	for i, a := range axes {
		from, to := int(pads[i]), int(pads[len(axes)+i])
		axis, err := ops.Axis(a, rank)
		if err != nil || from < 0 || to < 0 || axis != t.axis(s.in[0]) && from+to != 0 {
			return 0, 0, false
		}
		begin, end = begin+from, end+to
	}
	return begin, end, true
}

// zeros reports whether a tensor holds nothing else.
func zeros(k *tensor.Tensor) bool {
	v, err := k.Float64s()
	return err == nil && !slices.ContainsFunc(v, func(x float64) bool { return x != 0 })
}

// slice reads a step that takes consecutive steps of a sequence, and gives the first.
func (t *relayout) slice(s *step) (start int, ok bool) {
	axis, start, ok := t.range1(s)
	return start, ok && axis == t.axis(s.in[0])
}

// range1 reads a step that takes consecutive places along one axis.
func (t *relayout) range1(s *step) (axis, start int, ok bool) {
	if s.node.Op.FullName() != "Slice" || t.axis(s.in[0]) == 0 || len(s.captures) > 0 || s.out[0] == nil || t.d.shapes[s.out[0].id] == nil {
		return 0, 0, false
	}
	shape := t.d.shapes[s.in[0].id]
	starts, ok := t.d.ints(s, 1)
	if !ok || len(starts) != 1 {
		return 0, 0, false
	}
	if !s.absent(3) {
		axes, ok := t.d.ints(s, 3)
		if !ok || len(axes) != 1 {
			return 0, 0, false
		}
		var err error
		if axis, err = ops.Axis(axes[0], len(shape)); err != nil {
			return 0, 0, false
		}
	}
	if !s.absent(4) {
		if by, ok := t.d.ints(s, 4); !ok || len(by) != 1 || by[0] != 1 {
			return 0, 0, false
		}
	}
	n := int64(shape[axis])
	from := starts[0]
	if from < 0 {
		from += n
	}
	return axis, int(max(0, min(from, n))), true
}

// shifted looks for a sequence that is moved along time, with zeros in place of what was before its first step or behind its
// last: a Slice of a Pad, a Pad of a Slice, or zeros joined with a Slice.
func (t *relayout) shifted(s *step) *rewritten {
	var inner *value
	begin, end, start := 0, 0, 0
	switch s.node.Op.Name {
	case "Slice":
		from, ok := t.slice(s)
		p := t.made[s.in[0]]
		if !ok || p == nil {
			return nil
		}
		if begin, _, ok = t.pad(p); !ok {
			return nil
		}
		return t.moved(s, p, from-begin)
	case "Pad":
		var ok bool
		if begin, end, ok = t.pad(s); !ok {
			return nil
		}
		inner = s.in[0]
	case "Concat":
		axis, err := ops.Axis(s.node.Attrs.Int("axis", 0), len(t.d.shapes[s.out[0].id]))
		if err != nil || axis != t.axis(s.out[0]) || len(s.in) != 2 {
			return nil
		}
		for i, v := range s.in {
			k := t.d.constant(v)
			switch {
			case k == nil:
				inner = v
			case !zeros(k) || len(t.d.shapes[v.id]) <= axis:
				return nil
			case i == 0:
				begin = t.d.shapes[v.id][axis]
			default:
				end = t.d.shapes[v.id][axis]
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
	x := t.made[inner].in[0]
	// What the Slice has cut off must not come back.
	if !(start == 0 && end == 0) && !(begin == 0 && start+t.length(inner) == t.length(x)) {
		return nil
	}
	return t.moved(s, t.made[inner], start-begin)
}

// moved is the move of what the step over reads.
func (t *relayout) moved(s, over *step, by int) *rewritten {
	x, y := over.in[0], s.out[0]
	in, out := t.d.shapes[x.id], t.d.shapes[y.id]
	if t.axis(x) != t.axis(y) || !slices.Equal(in, out) || len(in) != 3 || t.length(x) <= max(by, -by) {
		return nil
	}
	return &rewritten{in: []*value{x}, out: y, win: shiftWindow(by, in[3-t.axis(x)]), over: []*step{over}}
}

// running looks for a sum along time that goes forward.
func (t *relayout) running(s *step) *rewritten {
	x := s.in[0]
	at, ok := t.d.ints(s, 1)
	if !ok || len(at) != 1 || t.axis(x) == 0 || len(t.d.shapes[x.id]) != 3 || ops.Int(s.node, "reverse") != 0 {
		return nil
	}
	if axis, err := ops.Axis(at[0], 3); err != nil || axis != t.axis(x) {
		return nil
	}
	return &rewritten{in: s.in[:1], out: s.out[0], sums: &sums{exclusive: ops.Int(s.node, "exclusive") != 0}}
}

// looks reports whether what stands in place of a step looks along time.
func (r *rewritten) looks() bool { return r.win != nil || r.sums != nil }

// columns looks for steps that cut features, or join them.
func (t *relayout) columns(s *step) *rewritten {
	var along []*value
	for _, v := range slices.Concat(s.in, s.out) {
		if v == nil || t.d.constant(v) != nil {
			continue
		}
		if t.axis(v) == 0 || len(t.d.shapes[v.id]) != 3 || t.axis(v) != t.axis(s.out[0]) {
			return nil
		}
		along = append(along, v)
	}
	feature := 3 - t.axis(s.out[0])
	r := &rewritten{in: s.in[:1], out: s.out[0]}
	axis, err := ops.Axis(s.node.Attrs.Int("axis", 0), 3)
	switch s.node.Op.Name {
	case "Slice":
		axis, from, ok := t.range1(s)
		if !ok || axis != feature {
			return nil
		}
		r.parts = append(r.parts, from)
	case "Split":
		if err != nil || axis != feature {
			return nil
		}
		at := 0
		for _, v := range s.out {
			if v == nil {
				return nil // how wide it is, nobody says
			}
			r.parts = append(r.parts, at)
			at += t.d.shapes[v.id][feature]
		}
		if at != t.d.shapes[s.in[0].id][feature] {
			return nil
		}
	case "Concat":
		if err != nil || axis != feature || len(along) != len(s.in)+1 {
			return nil
		}
		r.in, r.row = s.in, func(*step) rowMaker { return rowJoin }
	}
	return r
}

// elementwise looks for operators on numbers that lie at the same places, or are the same for all steps.
func (t *relayout) elementwise(s *step) *rewritten {
	r := &rewritten{out: s.out[0], in: make([]*value, len(s.in))}
	out := t.d.shapes[s.out[0].id]
	for i, v := range s.in {
		switch {
		case v == nil:
		case v.konst != nil:
			if n := v.konst.Len(); n != 1 && !(n == out[1] && perChannel(v.konst.Shape(), out)) {
				return nil
			}
		case t.axis(v) == 2 && t.d.shapes[v.id][0] == out[0] && t.length(v) == out[2]:
			r.in[i] = v
		default:
			return nil
		}
	}
	r.row = rows[s.node.Op.Name]
	in := make([][]int, len(s.in))
	for i, v := range s.in {
		switch {
		case r.in[i] != nil:
			x := t.d.shapes[v.id]
			in[i] = []int{x[0], x[2], x[1]}
		case v != nil:
			in[i] = []int{v.konst.Len()}
		}
	}
	mk := r.row(s.renewed(s.in, s.out, func(v *value, k *tensor.Tensor) *value {
		return &value{name: v.name, typ: v.typ, konst: k}
	}))
	if mk == nil || mk(in, []int{out[0], out[2], out[1]}) == nil {
		return nil
	}
	return r
}

// renewed is a step like s that reads and writes other values; constant gives the value for a constant that lies along features.
func (s *step) renewed(in, out []*value, constant func(v *value, k *tensor.Tensor) *value) *step {
	q := &step{node: s.node, src: s.src, group: s.group, alone: s.alone, in: slices.Clone(in), out: out,
		impl: &ways{shared: of(s).shared, products: of(s).products}}
	for i, v := range q.in {
		if v != nil && v.konst != nil && v.konst.DType() == tensor.Float32 {
			q.in[i] = constant(v, tensor.FromSlice(tensor.Data[float32](v.konst), v.konst.Len()))
		}
	}
	return q
}

// choose decides which sequences become rows. Those that steps share, which can work on either layout, go together; they do so
// where enough of these steps look along time to pay for those that turn sequences at the borders.
func (t *relayout) choose() bool {
	d := t.d
	root := map[*value]*value{}
	var find func(v *value) *value
	find = func(v *value) *value {
		if p := root[v]; p != nil && p != v {
			root[v] = find(p)
			return root[v]
		}
		root[v] = v
		return v
	}
	flips := func(r *rewritten, s *step) (all []*value) {
		for _, v := range slices.Concat(r.in, []*value{r.out}, s.out) {
			if v != nil && t.axis(v) == 2 && (v == r.out || slices.Contains(r.in, v) || r.parts != nil) {
				all = append(all, v)
			}
		}
		return all
	}
	windows, borders := map[*value]int{}, map[*value]int{}
	natural := 0
	for _, s := range d.p.steps {
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
	for _, s := range d.p.steps {
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
	t.gone = map[*step]bool{}
	read := map[*value]bool{}
	for _, v := range d.p.outputs {
		read[v] = true
	}
	for _, s := range slices.Backward(d.p.steps) {
		r := t.how[s]
		live := r != nil && read[r.out]
		for _, v := range s.out {
			live = live || v != nil && (read[v] || len(d.reads[v.id]) == 0)
		}
		switch {
		case !live:
			t.gone[s] = true
		case r == nil:
			for _, v := range s.in {
				read[v] = true
			}
			for _, c := range s.captures {
				read[c.val] = true
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

// borders counts the turns that a sequence needs at most.
func (t *relayout) borders(v *value) (n int) {
	if s := t.made[v]; s == nil || t.how[s] == nil && !t.gone[s] {
		n++
	}
	if t.asIs(v) {
		n++
	}
	return n
}

// asIs reports whether somebody needs v in its own layout.
func (t *relayout) asIs(v *value) bool {
	d := t.d
	if d.last[v.id] == len(d.p.steps) {
		return true
	}
	for _, s := range d.reads[v.id] {
		if r := t.how[s]; !t.gone[s] && (r == nil || !slices.Contains(r.in, v)) {
			return true
		}
		if slices.ContainsFunc(s.captures, func(c capture) bool { return c.val == v }) {
			return true
		}
	}
	return false
}

// build makes the binding.
func (t *relayout) build() *binding {
	d := t.d
	t.values, t.shapes, t.facts = slices.Clone(d.p.values), slices.Clone(d.shapes), slices.Clone(d.p.time)
	for _, v := range d.p.inputs {
		t.turnIn(v, nil)
	}
	for _, s := range d.p.steps {
		r := t.how[s]
		switch {
		case t.gone[s]:
		case r == nil && t.turns(s) != straight:
			t.turn(s, t.turns(s), s.in[0], s.out[0])
		case r == nil:
			t.steps = append(t.steps, s)
			for _, v := range s.out {
				t.turnIn(v, s)
			}
		case r.alias:
			t.alias(s, r)
		case r.parts != nil:
			for i, from := range r.parts {
				q := s.renewed([]*value{t.asRows(r.in[0])}, []*value{t.asRows(s.out[i])}, t.constant)
				of(q).row, of(q).columns, q.alone = rowColumns(from), &columns{from}, ir.Fact{}
				t.add(q, s.out[i])
			}
		case r.win != nil:
			q := s.renewed([]*value{t.asRows(r.in[0])}, []*value{t.asRows(r.out)}, t.constant)
			of(q).window, q.alone = r.win, ir.Fact{Back: int64(r.win.back()), Ahead: int64(r.win.ahead())}
			t.add(q, r.out)
		case r.sums != nil:
			q := s.renewed([]*value{t.asRows(r.in[0])}, []*value{t.asRows(r.out)}, t.constant)
			of(q).sums, q.alone = r.sums, ir.Fact{Back: ir.Unbounded, Summary: true}
			t.add(q, r.out)
		default:
			in := slices.Clone(s.in)
			for i, v := range r.in {
				if v != nil {
					in[i] = t.asRows(v)
				}
			}
			q := s.renewed(in, []*value{t.asRows(r.out)}, t.constant)
			of(q).row = r.row(q)
			t.add(q, r.out)
		}
	}
	lp, p := *d.p.lprogram, *d.p
	lp.values, lp.steps, lp.time = t.values, t.steps, t.facts
	p.lprogram = &lp
	n := *d.lbinding
	n.p, n.shapes = &lp, t.shapes
	more := len(t.values) - len(d.p.values)
	n.f32, n.dtype = slices.Clone(d.f32), slices.Clone(d.dtype)
	for range more {
		n.f32, n.dtype = append(n.f32, true), append(n.dtype, tensor.Float32)
	}
	n.konst = append(slices.Clone(d.konst), make([]*tensor.Tensor, more)...)
	n.last, n.reads = make([]int, len(t.values)), make([][]*step, len(t.values))
	n.given, n.dead = maps.Clone(d.given), maps.Clone(d.dead)
	n.lifetimes()
	return &binding{&n, &p}
}

// asRows gives the value that has the rows of a sequence.
func (t *relayout) asRows(v *value) *value {
	if t.axis(v) == 1 {
		return v
	}
	if x := t.rows[v]; x != nil {
		return x
	}
	for _, s := range t.d.reads[v.id] { // a turned sequence of the graph has them
		if r := t.how[s]; r != nil && r.alias && !t.gone[s] {
			t.rows[v] = r.out
			return r.out
		}
	}
	shape := t.d.shapes[v.id]
	fact := t.facts[v.id]
	fact.Axis = 1
	x := t.value(v, []int{shape[0], shape[2], shape[1]}, fact, nil)
	t.rows[v] = x
	return x
}

// value adds a value that stands for v.
func (t *relayout) value(v *value, shape []int, fact ir.Fact, konst *tensor.Tensor) *value {
	x := &value{id: len(t.values), name: v.name, typ: typeOf(tensor.Float32, shape), konst: konst}
	t.values, t.shapes, t.facts = append(t.values, x), append(t.shapes, shape), append(t.facts, fact)
	return x
}

func (t *relayout) constant(v *value, k *tensor.Tensor) *value {
	return t.value(v, k.Shape(), ir.Fact{}, k)
}

// add appends a step, and what brings v, which it computes as rows, into the layout of the graph, where somebody needs that.
func (t *relayout) add(s *step, v *value) {
	t.steps = append(t.steps, s)
	if t.flip[v] && t.asIs(v) {
		t.turn(s, fromRows, t.rows[v], v)
	}
}

func (t *relayout) turn(of *step, how turn, in, out *value) {
	t.steps = append(t.steps, &step{node: of.node, src: of.src, group: of.group, in: []*value{in}, out: []*value{out}, impl: &ways{turn: how}})
}

// turnIn brings a sequence that is computed, or given, in the layout of the graph into rows, where it is to be; of is the step
// that computes it.
func (t *relayout) turnIn(v *value, of *step) {
	if v == nil || !t.flip[v] {
		return
	}
	if of == nil {
		of = t.d.reads[v.id][0] // for messages
	}
	t.turn(of, toRows, v, t.asRows(v))
}

// turns says how a step of the graph turns sequences that stay in its layout on one side: tile by tile, too.
func (t *relayout) turns(s *step) turn {
	if s.node.Op.FullName() != "Transpose" || t.d.dead[s] || len(s.out) != 1 || t.axis(s.out[0]) == 0 || len(t.d.shapes[s.out[0].id]) != 3 ||
		!slices.Equal(s.node.Attrs.Ints("perm", nil), []int64{0, 2, 1}) {
		return straight
	}
	switch t.axis(s.in[0]) {
	case 1:
		return fromRows
	case 2:
		return toRows
	}
	return straight
}

// alias leaves out a step that turns a sequence from or into rows.
func (t *relayout) alias(s *step, r *rewritten) {
	in, out := r.in[0], r.out
	if t.axis(in) == 1 {
		t.rows[out] = in
		if t.asIs(out) {
			t.steps = append(t.steps, s)
		}
		return
	}
	if x := t.asRows(in); x != out { // another turned sequence has the rows
		q := s.renewed([]*value{x}, []*value{out}, t.constant)
		of(q).row, q.alone = elementwise(func(y, x []float32) { copy(y, x) }), ir.Fact{}
		t.steps = append(t.steps, q)
	}
}
