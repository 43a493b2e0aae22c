package lowering

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
	Program  *Program
	Loop     bool
	Carried  []carried
	Kept     []kept
	Scanned  []scanned
	Outs     []scanOut
	Captured []*Value // the values outside; they are the last inputs of p
}

// carried is a value that goes from one iteration to the next.
type carried struct {
	Arg, Res int // the input of the node that it starts as; the output of the node that it ends as
	In, Out  int // of the program
}

// kept is a carried value that never changes.
type kept struct{ Arg, Res int }

// scanned is an input that iterations see a part of.
type scanned struct {
	Arg, In  int
	Axis     int64
	Backward bool
}

// scanOut is an output to which each iteration gives a part.
type scanOut struct {
	Res, Out int
	Axis     int64
	Prepend  bool
	declared ir.Type // of a part, as the graph has it
}

// body compiles the subgraph of a Loop or Scan; nil where that is left to the evaluation: optionals that are carried (programs know only
// whether those are there that they are bound with), loops in loops in loops, and what has no program.
func (f *Compiler) body(n *ir.Node) *loopBody {
	b := &loopBody{Loop: n.Op.FullName() == "Loop"}
	if !b.Loop && n.Op.FullName() != "Scan" || !ops.Newest(n.Op) || f.loops >= maxLoops {
		return nil
	}
	g := n.Attrs.Graph("body")
	firstArg, firstIn, firstOut, scans := 2, 2, 1, 0
	if !b.Loop {
		firstArg, firstIn, firstOut, scans = 0, 0, 0, int(min(max(n.Attrs.Int("num_scan_inputs", 0), 0), int64(len(n.Inputs))))
	}
	if !b.Loop && scans == 0 {
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
	b.Program = sub.p
	take := func(v *ir.Value) int {
		b.Program.Inputs = append(b.Program.Inputs, sub.value(v))
		return len(b.Program.Inputs) - 1
	}
	if b.Loop {
		take(g.Inputs[0])
		sub.value(g.Inputs[1]).Const = tensor.Scalar(true) // or the body would not run
		b.Program.Outputs = append(b.Program.Outputs, nil)
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
		b.Carried = append(b.Carried, carried{Arg: firstArg + i, Res: i, In: take(g.Inputs[firstIn+i]), Out: firstOut + i - len(same)})
	}
	for i := range scans {
		b.Scanned = append(b.Scanned, scanned{Arg: states + i, In: take(g.Inputs[states+i]), Axis: inAxes[i], Backward: inDirections[i] != 0})
	}
	capture := func(outer *Value, v *ir.Value) {
		inner := sub.value(v)
		inner.Type, inner.Const = outer.Type, outer.Const
		if outer.Const == nil {
			b.Program.Inputs, b.Captured = append(b.Program.Inputs, inner), append(b.Captured, outer)
		}
	}
	for _, i := range same {
		capture(f.value(n.In(firstArg+i)), g.Inputs[firstIn+i])
		b.Kept = append(b.Kept, kept{Arg: firstArg + i, Res: i})
	}
	for _, v := range g.Captures() {
		capture(f.value(v), v)
	}
	if err := sub.graph(g, nil, 0); err != nil {
		return nil
	}
	if b.Loop {
		b.Program.Outputs[0] = sub.value(g.Outputs[0])
	}
	for _, c := range b.Carried {
		b.Program.Outputs = append(b.Program.Outputs, sub.value(g.Outputs[firstOut+c.Res]))
	}
	for i := range outs {
		v := g.Outputs[firstOut+states+i]
		b.Outs = append(b.Outs, scanOut{Res: states + i, Out: len(b.Program.Outputs), Axis: outAxes[i], Prepend: outDirections[i] != 0, declared: v.Type})
		b.Program.Outputs = append(b.Program.Outputs, sub.value(v))
	}
	return b
}

// origins returns a function that sees through the Identity nodes of g.
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

// LoopBinding is the body of a Loop or Scan with the shapes of one binding.
type LoopBinding struct {
	// Stages are the first iterations, as far as their shapes differ; the last one is all that follow, too. There is none where
	// there is no iteration.
	Stages []*Binding
	// Trip is how many iterations there are; -1: that shows when it runs.
	Trip int

	known []*tensor.Tensor // the content of inputs, as far as it is known
}

// resolveBody binds a body to the shapes of its first iteration, and to those of the next ones until they repeat. Carried
// values whose shapes go on changing have none: steps that read them are evaluated. It says nothing, so that the node is evaluated as a
// whole, where what is scanned has no known shape, and where the graph declares other types than the body gets.
func (d *Binding) resolveBody(s *Step) {
	b := s.body
	types, konst := make([]ir.Type, len(b.Program.Inputs)), make([]*tensor.Tensor, len(b.Program.Inputs))
	limit, certain := d.iterations(s)
	if b.Loop {
		types[0] = TypeOf(tensor.Int64, nil)
	}
	for _, c := range b.Carried {
		if v := s.In[c.Arg]; d.Shape(v) != nil {
			types[c.In] = TypeOf(d.DType(v), d.Shape(v))
		}
	}
	for _, c := range b.Scanned {
		shape := d.ShapeOf(s, c.Arg)
		if shape == nil {
			return
		}
		axis, err := ops.Axis(c.Axis, len(shape))
		if err != nil || shape[axis] != limit {
			return
		}
		types[c.In] = TypeOf(d.DType(s.In[c.Arg]), slices.Delete(slices.Clone(shape), axis, axis+1))
	}
	for i, v := range b.Captured {
		at := len(types) - len(b.Captured) + i
		var ok bool
		if types[at], konst[at], ok = d.inner(v); !ok {
			return
		}
	}
	l := &LoopBinding{Trip: limit, known: konst}
	if limit != 0 && !d.bindStages(s, l, types, konst, limit) {
		return
	}
	if !certain {
		l.Trip = -1
	}
	for _, x := range l.Stages {
		if !b.Loop {
			break
		}
		if more := x.Constant(b.Program.Outputs[0]); more == nil || !holds(more) {
			l.Trip = -1
		}
	}
	if d.bodies == nil {
		d.bodies = map[*Step]*LoopBinding{}
	}
	d.bodies[s] = l
	for _, c := range b.Carried {
		if q, known := d.itemsAfter(s, l, c); known && c.Res < len(s.Out) {
			d.setItems(s.Out[c.Res], q)
		}
	}
	for _, c := range b.Kept {
		if q, known := d.items[s.In[c.Arg]]; known && c.Res < len(s.Out) {
			d.setItems(s.Out[c.Res], q)
		}
	}
	for i, v := range s.Out {
		if v == nil || d.Shape(v) != nil {
			continue
		}
		if dtype, shape := d.resultOf(s, l, i); shape != nil {
			d.setType(v, TypeOf(dtype, shape))
		}
	}
}

// holds reports whether t is one bool that is true.
func holds(t *tensor.Tensor) bool {
	return t.DType() == tensor.Bool && t.Len() == 1 && tensor.Data[bool](t)[0]
}

// iterations returns how many iterations there are at most, as far as that is known, or -1; certain says that the inputs alone do not end the
// loop before.
func (d *Binding) iterations(s *Step) (limit int, certain bool) {
	if !s.body.Loop {
		c := s.body.Scanned
		if len(c) == 0 {
			return -1, false
		}
		shape := d.ShapeOf(s, c[0].Arg)
		axis, err := ops.Axis(c[0].Axis, len(shape))
		if err != nil {
			return -1, false
		}
		return shape[axis], true
	}
	limit = -1
	if m, known := d.Ints(s, 0); known && len(m) == 1 {
		limit = int(min(max(m[0], 0), mostNumbers))
	}
	if s.Absent(1) {
		return limit, limit >= 0
	}
	cond := d.Constant(s.In[1])
	if cond == nil {
		return limit, false
	}
	if !holds(cond) {
		return 0, true
	}
	return limit, limit >= 0
}

// bindStages fills l.stages. It reports whether the types fit what the body declares.
func (d *Binding) bindStages(s *Step, l *LoopBinding, first []ir.Type, konst []*tensor.Tensor, limit int) bool {
	b := s.body
	bind := func(types []ir.Type) *Binding {
		for i, v := range b.Program.Inputs {
			if !agrees(v.Type, types[i]) {
				return nil
			}
		}
		x := b.Program.Bind(runtime.Binding{Inputs: types}, konst)
		if x.err != nil {
			return nil
		}
		return x
	}
	d.carriedItems(s, first, bind)
	types := slices.Clone(first)
	for len(l.Stages) < maxStages {
		x := bind(types)
		if x == nil {
			return false
		}
		l.Stages = append(l.Stages, x)
		next := slices.Clone(types)
		changes := x.carry(b, next, func(i int, t ir.Type) { next[i] = t })
		if changes == 0 || len(l.Stages) == limit {
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
			l.Stages = []*Binding{x}
			return true
		}
		if types = next; widen > 0 {
			for _, c := range b.Carried {
				types[c.In] = nil
			}
		}
	}
}

// carry calls set for the carried values that do not come out as they went in, and counts them. What went in without a shape
// may come out in any.
func (d *Binding) carry(b *loopBody, in []ir.Type, set func(i int, t ir.Type)) (changes int) {
	for _, c := range b.Carried {
		o := b.Program.Outputs[c.Out]
		if q, ok := in[c.In].(*ir.SequenceType); ok && !d.keepsItems(q, b.Program.Inputs[c.In], o) {
			set(c.In, nil)
			changes++
		}
		before, ok := in[c.In].(*ir.TensorType)
		if !ok {
			continue
		}
		shape, _ := before.Shape.Known()
		switch {
		case d.Shape(o) == nil:
			set(c.In, nil)
		case d.DType(o) != before.Elem || !slices.Equal(d.Shape(o), shape):
			set(c.In, TypeOf(d.DType(o), d.Shape(o)))
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

// resultOf returns the type of output i of a Loop or Scan; nil where it shows when it runs.
func (d *Binding) resultOf(s *Step, l *LoopBinding, i int) (dtype tensor.DType, shape []int) {
	b := s.body
	used := l.Stages
	if l.Trip >= 0 {
		used = used[:min(len(used), l.Trip)]
	}
	for _, c := range b.Kept {
		if v := s.In[c.Arg]; c.Res == i {
			return d.DType(v), d.Shape(v)
		}
	}
	for _, c := range b.Carried {
		if c.Res != i {
			continue
		}
		v := s.In[c.Arg]
		if l.Trip < 0 { // the same, wherever it ends
			for _, x := range used {
				if !x.gives(c.Out, d.Shape(v)) {
					return 0, nil
				}
			}
		} else if len(used) > 0 {
			x, o := used[len(used)-1], b.Program.Outputs[c.Out]
			return x.DType(o), x.Shape(o)
		}
		return d.DType(v), d.Shape(v)
	}
	for _, o := range b.Outs {
		if o.Res != i || l.Trip < 0 {
			continue
		}
		dtype, part, ok := l.part(b, o)
		if l.Trip == 0 {
			dtype, part, ok = declaredPart(o)
		}
		axis, err := ops.Axis(o.Axis, len(part)+1)
		if !ok || err != nil {
			return 0, nil
		}
		shape = slices.Insert(slices.Clone(part), axis, l.Trip)
		if n, err := tensor.Size(shape); err != nil || n > ops.MaxElems {
			return 0, nil // refused when it runs
		}
		return dtype, shape
	}
	return 0, nil
}

// part returns the type of what iterations give to a scan output, where it is the same in all.
func (l *LoopBinding) part(b *loopBody, o scanOut) (dtype tensor.DType, shape []int, ok bool) {
	v := b.Program.Outputs[o.Out]
	for k, x := range l.Stages {
		if x.Shape(v) == nil || k > 0 && (!slices.Equal(shape, x.Shape(v)) || dtype != x.DType(v)) {
			return 0, nil, false
		}
		dtype, shape = x.DType(v), x.Shape(v)
	}
	return dtype, shape, len(l.Stages) > 0
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

// open reports whether an input of the last stage may turn out to be a tensor whose shape is not known yet.
func (l *LoopBinding) open() bool {
	if len(l.Stages) == 0 {
		return false
	}
	x := l.Stages[len(l.Stages)-1]
	return slices.ContainsFunc(x.Program.Inputs, func(v *Value) bool { return x.Shape(v) == nil && !isSequence(v.Type) })
}

func isSequence(t ir.Type) bool {
	_, ok := t.(*ir.SequenceType)
	return ok
}
