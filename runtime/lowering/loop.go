package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// maxLoops is the maximum depth of nested loops that run as programs, since a body is bound up to maxStages+2 times
// for each binding of the body around it. Deeper loops are evaluated.
const maxLoops = 3

// maxStages is the maximum number of first iterations with shapes of their own. A state that is a row before the
// first iteration, and a matrix from then on, takes two.
const maxStages = 3

// loopBody is the subgraph of a Loop or Scan as a program. The inputs of the program are the iteration number (of
// Loop), the carried values, the parts of scanned inputs, and the captured values. Its outputs are the condition (of
// Loop), the carried values, and the parts of scan outputs. A carried value that the body returns unchanged is a
// captured value instead.
type loopBody struct {
	Program  *Program
	Loop     bool
	Carried  []carried
	Kept     []kept
	Scanned  []scanned
	Outs     []scanOut
	Captured []*Value // the values outside; their inner values are the last inputs of Program
}

// carried is a value that passes from one iteration to the next.
type carried struct {
	Arg, Res int // the input of the node with its first value, and the output with its last
	In, Out  int // its input and output of the program
}

// kept is a carried value that does not change.
type kept struct{ Arg, Res int }

// scanned is an input; each iteration reads a part of it.
type scanned struct {
	Arg, In  int
	Axis     int64
	Backward bool
}

// scanOut is an output; each iteration writes a part of it.
type scanOut struct {
	Res, Out int
	Axis     int64
	Prepend  bool
	declared ir.Type // of a part
}

// body lowers the subgraph of a Loop or Scan. It returns nil if the node must be evaluated: if it carries optionals,
// whose presence a program must know before the run, if it is inside too many other loops, or if the subgraph cannot
// be lowered.
func (f *Compiler) body(n *ir.Node) *loopBody {
	b := &loopBody{Loop: n.Op.FullName() == "Loop"}
	if !b.Loop && n.Op.FullName() != "Scan" || !ops.Newest(n.Op) || f.loops >= maxLoops {
		return nil
	}
	g := n.Attrs.Graph("body")
	firstArg, firstIn, firstOut, scans := 2, 2, 1, 0
	if !b.Loop {
		firstArg, firstIn, firstOut = 0, 0, 0
		scans = int(min(max(n.Attrs.Int("num_scan_inputs", 0), 0), int64(len(n.Inputs))))
	}
	if !b.Loop && scans == 0 {
		return nil // the evaluation reports the error
	}
	states := len(g.Inputs) - firstIn - scans
	outs := len(g.Outputs) - firstOut - states
	if states < 0 || outs < 0 || max(0, len(n.Inputs)-firstArg) != states+scans || len(n.Outputs) > states+outs {
		return nil
	}
	inAxes := n.Attrs.Ints("scan_input_axes", make([]int64, scans))
	inDirections := n.Attrs.Ints("scan_input_directions", make([]int64, scans))
	outAxes := n.Attrs.Ints("scan_output_axes", make([]int64, outs))
	outDirections := n.Attrs.Ints("scan_output_directions", make([]int64, outs))
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
		sub.value(g.Inputs[1]).Const = tensor.Scalar(true) // otherwise the body does not run
		b.Program.Outputs = append(b.Program.Outputs, nil)
	}
	origin := origins(g, f.pace)
	var same []int // states that the body returns unchanged
	for i := range states {
		f.pace.Step(4)
		if arg := n.In(firstArg + i); arg == nil {
			return nil
		} else if _, optional := arg.Type.(*ir.OptionalType); optional {
			return nil
		}
		if origin(g.Outputs[firstOut+i]) == g.Inputs[firstIn+i] {
			same = append(same, i)
			continue
		}
		b.Carried = append(b.Carried, carried{Arg: firstArg + i, Res: i, In: take(g.Inputs[firstIn+i]),
			Out: firstOut + i - len(same)})
	}
	for i := range scans {
		f.pace.Step(4)
		b.Scanned = append(b.Scanned, scanned{Arg: states + i, In: take(g.Inputs[states+i]), Axis: inAxes[i],
			Backward: inDirections[i] != 0})
	}
	capture := func(outer *Value, v *ir.Value) {
		inner := sub.value(v)
		inner.take(outer)
		if outer.Fixed() == nil {
			b.Program.Inputs, b.Captured = append(b.Program.Inputs, inner), append(b.Captured, outer)
		}
	}
	for _, i := range same {
		f.pace.Step(4)
		capture(f.value(n.In(firstArg+i)), g.Inputs[firstIn+i])
		b.Kept = append(b.Kept, kept{Arg: firstArg + i, Res: i})
	}
	for _, v := range g.CapturesPaced(f.pace) {
		capture(f.value(v), v)
	}
	if err := sub.graph(g, nil, 0); err != nil {
		return nil
	}
	if b.Loop {
		b.Program.Outputs[0] = sub.value(g.Outputs[0])
	}
	for _, c := range b.Carried {
		f.pace.Step(1)
		b.Program.Outputs = append(b.Program.Outputs, sub.value(g.Outputs[firstOut+c.Res]))
	}
	for i := range outs {
		f.pace.Step(2)
		v := g.Outputs[firstOut+states+i]
		b.Outs = append(b.Outs, scanOut{Res: states + i, Out: len(b.Program.Outputs), Axis: outAxes[i],
			Prepend: outDirections[i] != 0, declared: v.Type})
		b.Program.Outputs = append(b.Program.Outputs, sub.value(v))
	}
	return b
}

// origins returns a function that returns the value before all Identity nodes of g that lead to v.
func origins(g *ir.Graph, pace *ir.Pacer) func(v *ir.Value) *ir.Value {
	from := map[*ir.Value]*ir.Value{}
	for _, n := range g.Nodes {
		if pace.Step(1); n.Op.FullName() == "Identity" && len(n.Inputs) == 1 && len(n.Outputs) == 1 {
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

// LoopBinding is the bound body of a Loop or Scan.
type LoopBinding struct {
	// Stages are the bindings of the first iterations, as long as their shapes differ. The last stage runs all
	// further iterations. A loop without iterations has no stages.
	Stages []*Binding
	// Trip is the number of iterations, or -1 if it is not known before the run.
	Trip int

	known []*tensor.Tensor // content of inputs, as far as it is known
}

// resolveBody binds a body to the shapes of its first iteration, and to those of the next ones until they repeat.
// Carried values whose shapes keep changing get no shape, and steps that read them are evaluated. If a scanned input
// has no known shape, or the types do not agree with those that the graph declares, the body is not bound, and the node
// is evaluated as a whole.
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
		d.Steps().Step(50)
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
		d.Steps().Step(20)
		if q, known := d.items[s.In[c.Arg]]; known && c.Res < len(s.Out) {
			d.setItems(s.Out[c.Res], q)
		}
	}
	for i, v := range s.Out {
		d.Steps().Step(50)
		if v == nil || d.Shape(v) != nil {
			continue
		}
		if dtype, shape := d.resultOf(s, l, i); shape != nil {
			d.setType(v, TypeOf(dtype, shape))
		}
	}
}

// holds reports whether t is a single true.
func holds(t *tensor.Tensor) bool {
	return t.DType() == tensor.Bool && t.Len() == 1 && tensor.Data[bool](t)[0]
}

// iterations returns the maximum number of iterations, or -1 if it is not known. certain means that no input of the
// node can end the loop earlier.
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

// bindStages sets l.Stages. It returns false if the types do not agree with those that the body declares.
func (d *Binding) bindStages(s *Step, l *LoopBinding, first []ir.Type, konst []*tensor.Tensor, limit int) bool {
	b := s.body
	bind := func(types []ir.Type) *Binding {
		for i, v := range b.Program.Inputs {
			if d.Steps().Step(50); !agrees(v.Type, types[i]) {
				return nil
			}
		}
		x := b.Program.bind(runtime.Binding{Inputs: types}, konst, d.memory, d.known, d.checks)
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
	for widen := 0; ; widen++ { // after the second time, no type can change
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

// carry calls set with the new type for each carried value whose type changes in an iteration, and returns the number
// of calls. A value without a known shape may change to any.
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

// agrees reports whether a value with a declared type may have a given type. It is true if the given type is nil, or
// not a tensor.
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

// resultOf returns the type of output i of a Loop or Scan. The shape is nil if it is not known before the run.
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
		if l.Trip < 0 { // the shape must not depend on the number of iterations
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
			return 0, nil // the run reports the error
		}
		return dtype, shape
	}
	return 0, nil
}

// part returns the type of the parts of a scan output. It returns false if the type is not known, or differs between
// iterations.
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

// declaredPart returns the declared type of a part, for loops without iterations. Unknown dimensions are 0.
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

// Open reports whether the last stage has an input, other than a sequence, whose shape is not known before the run.
// Its body is bound when the shapes are known, unless it has very little to compute.
func (l *LoopBinding) Open() bool {
	if len(l.Stages) == 0 {
		return false
	}
	x := l.Stages[len(l.Stages)-1]
	return slices.ContainsFunc(x.Program.Inputs, func(v *Value) bool {
		return x.Shape(v) == nil && !isSequence(v.Type)
	})
}

func isSequence(t ir.Type) bool {
	_, ok := t.(*ir.SequenceType)
	return ok
}
