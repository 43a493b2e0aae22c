package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// maxLoops bounds how deep loops run as programs within each other: a body is bound up to maxStages+2 times for each binding
// of the body around it. Deeper ones are evaluated.
const maxLoops = 3

// maxStages bounds the iterations whose shapes may differ from those of the iterations after them: a state that starts as a
// row, and has the samples' shape from the first iteration on, takes two.
const maxStages = 3

// loopBody is the subgraph of a Loop or Scan as a program of its own. The program's inputs are the number of the iteration (of
// Loop), the carried values, the parts of what is scanned, and what is captured; its outputs the condition (of Loop), the carried
// values, and the elements of scan outputs. A carried value that the body gives back unchanged is captured instead.
type loopBody struct {
	p        *lprogram
	loop     bool
	carried  []carried
	kept     []kept
	scanned  []scanned
	outs     []scanOut
	captured []*value // the values outside; they are the last inputs of p
}

// carried is a value that goes from one iteration to the next.
type carried struct {
	arg, res int // the input of the node that it starts as; the output of the node that it ends as
	in, out  int // of the program
}

// kept is a carried value that never changes.
type kept struct{ arg, res int }

// scanned is an input that iterations see a part of.
type scanned struct {
	arg, in  int
	axis     int64
	backward bool
}

// scanOut is an output to which each iteration gives a part.
type scanOut struct {
	res, out int
	axis     int64
	prepend  bool
	declared ir.Type // of a part, as the graph has it
}

// body compiles the subgraph of a Loop or Scan; nil where that is left to the evaluation: optionals that are carried (programs know only
// whether those are there that they are bound with), loops in loops in loops, and what has no program.
func (f *compiler) body(n *ir.Node) *loopBody {
	b := &loopBody{loop: n.Op.FullName() == "Loop"}
	if !b.loop && n.Op.FullName() != "Scan" || !ops.Newest(n.Op) || f.loops >= maxLoops {
		return nil
	}
	g := n.Attrs.Graph("body")
	firstArg, firstIn, firstOut, scans := 2, 2, 1, 0
	if !b.loop {
		firstArg, firstIn, firstOut, scans = 0, 0, 0, int(min(max(n.Attrs.Int("num_scan_inputs", 0), 0), int64(len(n.Inputs))))
	}
	if !b.loop && scans == 0 {
		return nil // refused when it is evaluated
	}
	states := len(g.Inputs) - firstIn - scans
	outs := len(g.Outputs) - firstOut - states
	if states < 0 || outs < 0 || max(0, len(n.Inputs)-firstArg) != states+scans || len(n.Outputs) > states+outs {
		return nil
	}
	inAxes, inDirections := n.Attrs.Ints("scan_input_axes", make([]int64, scans)), n.Attrs.Ints("scan_input_directions", make([]int64, scans))
	outAxes, outDirections := n.Attrs.Ints("scan_output_axes", make([]int64, outs)), n.Attrs.Ints("scan_output_directions", make([]int64, outs))
	if len(inAxes) != scans || len(inDirections) != scans || len(outAxes) != outs || len(outDirections) != outs {
		return nil
	}
	for _, l := range [][]*ir.Value{g.Inputs, g.Outputs} {
		for _, v := range l {
			if _, optional := v.Type.(*ir.OptionalType); optional {
				return nil
			}
		}
	}
	sub := f.within(g)
	sub.loops = f.loops + 1
	b.p = sub.p
	take := func(v *ir.Value) int {
		b.p.inputs = append(b.p.inputs, sub.value(v))
		return len(b.p.inputs) - 1
	}
	if b.loop {
		take(g.Inputs[0])
		sub.value(g.Inputs[1]).konst = tensor.Scalar(true) // or the body would not run
		b.p.outputs = append(b.p.outputs, nil)
	}
	origin := origins(g)
	var same []int // states of which the body gives what it is given
	for i := range states {
		if arg := n.In(firstArg + i); arg == nil {
			return nil
		} else if _, optional := arg.Type.(*ir.OptionalType); optional {
			return nil
		}
		if origin(g.Outputs[firstOut+i]) == g.Inputs[firstIn+i] {
			same = append(same, i)
			continue
		}
		b.carried = append(b.carried, carried{arg: firstArg + i, res: i, in: take(g.Inputs[firstIn+i]), out: firstOut + i - len(same)})
	}
	for i := range scans {
		b.scanned = append(b.scanned, scanned{arg: states + i, in: take(g.Inputs[states+i]), axis: inAxes[i], backward: inDirections[i] != 0})
	}
	capture := func(outer *value, v *ir.Value) {
		inner := sub.value(v)
		inner.typ, inner.konst = outer.typ, outer.konst
		if outer.konst == nil {
			b.p.inputs, b.captured = append(b.p.inputs, inner), append(b.captured, outer)
		}
	}
	for _, i := range same {
		capture(f.value(n.In(firstArg+i)), g.Inputs[firstIn+i])
		b.kept = append(b.kept, kept{arg: firstArg + i, res: i})
	}
	for _, v := range g.Captures() {
		capture(f.value(v), v)
	}
	if err := sub.graph(g, nil, 0); err != nil {
		return nil
	}
	if b.loop {
		b.p.outputs[0] = sub.value(g.Outputs[0])
	}
	for _, c := range b.carried {
		b.p.outputs = append(b.p.outputs, sub.value(g.Outputs[firstOut+c.res]))
	}
	for i := range outs {
		v := g.Outputs[firstOut+states+i]
		b.outs = append(b.outs, scanOut{res: states + i, out: len(b.p.outputs), axis: outAxes[i], prepend: outDirections[i] != 0, declared: v.Type})
		b.p.outputs = append(b.p.outputs, sub.value(v))
	}
	return b
}

// origins gives a function that sees through the Identity nodes of g.
func origins(g *ir.Graph) func(v *ir.Value) *ir.Value {
	from := map[*ir.Value]*ir.Value{}
	for _, n := range g.Nodes {
		if n.Op.FullName() == "Identity" && len(n.Inputs) == 1 && len(n.Outputs) == 1 {
			from[n.Outputs[0]] = n.Inputs[0]
		}
	}
	return func(v *ir.Value) *ir.Value {
		for from[v] != nil {
			v = from[v]
		}
		return v
	}
}

// loopBinding is a body with the shapes of one binding.
type loopBinding struct {
	// stages are the first iterations, as far as their shapes differ; the last one is all that follow, too.
	stages []*lbinding
	trip   int              // how many iterations there are; -1: that shows when it runs
	konst  []*tensor.Tensor // the content of inputs, as far as it is known
}

// resolveBody binds a body to the shapes of its first iteration, and to those of the next ones until they repeat. Carried
// values whose shapes go on changing have none: steps that read them are evaluated. It says nothing, so that the node is evaluated as a
// whole, where what is scanned has no known shape, and where the graph declares other types than the body gets.
func (d *lbinding) resolveBody(s *step) {
	b := s.body
	types, konst := make([]ir.Type, len(b.p.inputs)), make([]*tensor.Tensor, len(b.p.inputs))
	limit, certain := d.iterations(s)
	if b.loop {
		types[0] = typeOf(tensor.Int64, nil)
	}
	for _, c := range b.carried {
		if v := s.in[c.arg]; d.shapes[v.id] != nil {
			types[c.in] = typeOf(d.dtype[v.id], d.shapes[v.id])
		}
	}
	for _, c := range b.scanned {
		shape := d.shapeOf(s, c.arg)
		if shape == nil {
			return
		}
		axis, err := ops.Axis(c.axis, len(shape))
		if err != nil || shape[axis] != limit {
			return
		}
		types[c.in] = typeOf(d.dtype[s.in[c.arg].id], slices.Delete(slices.Clone(shape), axis, axis+1))
	}
	for i, v := range b.captured {
		at := len(types) - len(b.captured) + i
		var ok bool
		if types[at], konst[at], ok = d.inner(v); !ok {
			return
		}
	}
	l := &loopBinding{trip: limit, konst: konst}
	if limit != 0 && !d.bindStages(s, l, types, konst, limit) {
		return
	}
	if !certain {
		l.trip = -1
	}
	for _, x := range l.stages {
		if !b.loop {
			break
		}
		if more := x.constant(b.p.outputs[0]); more == nil || !holds(more) {
			l.trip = -1
		}
	}
	if d.bodies == nil {
		d.bodies = map[*step]*loopBinding{}
	}
	d.bodies[s] = l
	for _, c := range b.carried {
		if q, known := d.itemsAfter(s, l, c); known && c.res < len(s.out) {
			d.setItems(s.out[c.res], q)
		}
	}
	for _, c := range b.kept {
		if q, known := d.items[s.in[c.arg]]; known && c.res < len(s.out) {
			d.setItems(s.out[c.res], q)
		}
	}
	for i, v := range s.out {
		if v == nil || d.shapes[v.id] != nil {
			continue
		}
		if dtype, shape := d.resultOf(s, l, i); shape != nil {
			d.setType(v, typeOf(dtype, shape))
		}
	}
}

// holds reports whether t is one bool that is true.
func holds(t *tensor.Tensor) bool {
	return t.DType() == tensor.Bool && t.Len() == 1 && tensor.Data[bool](t)[0]
}

// iterations gives how many iterations there are at most, as far as that is known, or -1; certain says that the inputs alone do not end the
// loop before.
func (d *lbinding) iterations(s *step) (limit int, certain bool) {
	if !s.body.loop {
		c := s.body.scanned
		if len(c) == 0 {
			return -1, false
		}
		shape := d.shapeOf(s, c[0].arg)
		axis, err := ops.Axis(c[0].axis, len(shape))
		if err != nil {
			return -1, false
		}
		return shape[axis], true
	}
	limit = -1
	if m, known := d.ints(s, 0); known && len(m) == 1 {
		limit = int(min(max(m[0], 0), mostNumbers))
	}
	if s.absent(1) {
		return limit, limit >= 0
	}
	cond := d.constant(s.in[1])
	if cond == nil {
		return limit, false
	}
	if !holds(cond) {
		return 0, true
	}
	return limit, limit >= 0
}

// bindStages fills l.stages. It reports whether the types fit what the body declares.
func (d *lbinding) bindStages(s *step, l *loopBinding, first []ir.Type, konst []*tensor.Tensor, limit int) bool {
	b := s.body
	bind := func(types []ir.Type) *lbinding {
		for i, v := range b.p.inputs {
			if !agrees(v.typ, types[i]) {
				return nil
			}
		}
		x := b.p.bind(runtime.Binding{Inputs: types}, konst)
		if x.err != nil {
			return nil
		}
		return x
	}
	d.carriedItems(s, first, bind)
	types := slices.Clone(first)
	for len(l.stages) < maxStages {
		x := bind(types)
		if x == nil {
			return false
		}
		l.stages = append(l.stages, x)
		next := slices.Clone(types)
		changes := x.carry(b, next, func(i int, t ir.Type) { next[i] = t })
		if changes == 0 || len(l.stages) == limit {
			return true
		}
		types = next
	}
	types = slices.Clone(first)
	for widen := 0; ; widen++ { // at the second time nothing is left that could change
		x := bind(types)
		if x == nil {
			return false
		}
		next := slices.Clone(types)
		if changes := x.carry(b, types, func(i int, _ ir.Type) { next[i] = nil }); changes == 0 {
			l.stages = []*lbinding{x}
			return true
		}
		if types = next; widen > 0 {
			for _, c := range b.carried {
				types[c.in] = nil
			}
		}
	}
}

// carry calls set for the carried values that do not come out as they went in, and counts them. What went in without a shape
// may come out in any.
func (d *lbinding) carry(b *loopBody, in []ir.Type, set func(i int, t ir.Type)) (changes int) {
	for _, c := range b.carried {
		o := b.p.outputs[c.out]
		if q, ok := in[c.in].(*ir.SequenceType); ok && !d.keepsItems(q, b.p.inputs[c.in], o) {
			set(c.in, nil)
			changes++
		}
		before, ok := in[c.in].(*ir.TensorType)
		if !ok {
			continue
		}
		shape, _ := before.Shape.Known()
		switch {
		case d.shapes[o.id] == nil:
			set(c.in, nil)
		case d.dtype[o.id] != before.Elem || !slices.Equal(d.shapes[o.id], shape):
			set(c.in, typeOf(d.dtype[o.id], d.shapes[o.id]))
		default:
			continue
		}
		changes++
	}
	return changes
}

// agrees reports whether a value that is declared with one type may have the other; nil is a type that is not known.
func agrees(declared, given ir.Type) bool {
	t, ok := declared.(*ir.TensorType)
	g, known := given.(*ir.TensorType)
	if !ok || !known || g == nil {
		return true
	}
	if t.Elem != g.Elem || !t.NoRank && len(t.Shape) != len(g.Shape) {
		return false
	}
	for i, dim := range t.Shape {
		k, fixed := dim.Known()
		if j, _ := g.Shape[i].Known(); fixed && k != j {
			return false
		}
	}
	return true
}

// resultOf gives the type of output i of a Loop or Scan; nil where it shows when it runs.
func (d *lbinding) resultOf(s *step, l *loopBinding, i int) (dtype tensor.DType, shape []int) {
	b := s.body
	used := l.stages
	if l.trip >= 0 {
		used = used[:min(len(used), l.trip)]
	}
	for _, c := range b.kept {
		if v := s.in[c.arg]; c.res == i {
			return d.dtype[v.id], d.shapes[v.id]
		}
	}
	for _, c := range b.carried {
		if c.res != i {
			continue
		}
		v := s.in[c.arg]
		if l.trip < 0 { // the same, wherever it ends
			for _, x := range used {
				if o := b.p.outputs[c.out].id; d.shapes[v.id] == nil || x.shapes[o] == nil || !slices.Equal(x.shapes[o], d.shapes[v.id]) {
					return 0, nil
				}
			}
		} else if len(used) > 0 {
			x, o := used[len(used)-1], b.p.outputs[c.out].id
			return x.dtype[o], x.shapes[o]
		}
		return d.dtype[v.id], d.shapes[v.id]
	}
	for _, o := range b.outs {
		if o.res != i || l.trip < 0 {
			continue
		}
		dtype, part, ok := l.part(b, o)
		if l.trip == 0 {
			dtype, part, ok = declaredPart(o)
		}
		axis, err := ops.Axis(o.axis, len(part)+1)
		if !ok || err != nil {
			return 0, nil
		}
		shape = slices.Insert(slices.Clone(part), axis, l.trip)
		if n, err := tensor.Size(shape); err != nil || n > ops.MaxElems {
			return 0, nil // refused when it runs
		}
		return dtype, shape
	}
	return 0, nil
}

// part gives the type of what iterations give to a scan output, where it is the same in all.
func (l *loopBinding) part(b *loopBody, o scanOut) (dtype tensor.DType, shape []int, ok bool) {
	v := b.p.outputs[o.out].id
	for k, x := range l.stages {
		if x.shapes[v] == nil || k > 0 && (!slices.Equal(shape, x.shapes[v]) || dtype != x.dtype[v]) {
			return 0, nil, false
		}
		dtype, shape = x.dtype[v], x.shapes[v]
	}
	return dtype, shape, len(l.stages) > 0
}

// declaredPart is what no iteration would have given: dimensions that the graph leaves open count as none.
func declaredPart(o scanOut) (dtype tensor.DType, shape []int, ok bool) {
	t, ok := ir.AsTensor(o.declared)
	if !ok {
		return 0, nil, false
	}
	shape = make([]int, len(t.Shape))
	for i, dim := range t.Shape {
		k, _ := dim.Known()
		shape[i] = int(max(k, 0))
	}
	return t.Elem, shape, true
}
