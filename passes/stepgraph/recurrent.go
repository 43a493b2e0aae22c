package stepgraph

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// recurrent passes the hidden states of a recurrent layer from chunk to chunk.
func (s *stepper) recurrent(n *ir.Node) error {
	v := n.In(0)
	f := s.flowOf(v)
	if n.Attrs.Str("direction", "forward") != "forward" {
		return s.why(n, ir.Fact{Ahead: ir.Unbounded})
	}
	if n.In(4) != nil {
		return &BlockedError{n, "has its own lengths (sequence_lens)"}
	}
	axis, batch := 0, 1 // axes of time in X and of the batch in the states
	if n.Attrs.Int("layout", 0) != 0 {
		axis, batch = 1, 0
	}
	if f.kind != Sequence || f.axis != axis {
		return s.why(n, ir.Fact{Global: true})
	}
	if _, single := s.samples().Known(); s.batchAxis(v) != batch && !single {
		return &BlockedError{n, "has a state that is not one per sample"}
	}
	sources := slices.Clone(n.Outputs)
	last := len(sources) > 1 && slices.ContainsFunc(sources[1:], func(v *ir.Value) bool { return v != nil })
	for i := range n.Op.Out {
		if i >= len(n.Outputs) {
			n.Outputs = append(n.Outputs, nil)
		}
		if n.Outputs[i] == nil && i > 0 {
			n.Outputs[i] = &ir.Value{Name: s.Unique(n.Op.Name + ".last"), Def: n}
		}
	}
	args := make([]*ir.Value, len(n.Op.In))
	for i, v := range n.Inputs {
		args[i] = s.get(v)
	}
	args[5] = nil
	if len(args) > 6 {
		args[6] = nil
	}
	types, err := ir.Infer(&ir.Node{Op: n.Op, Name: n.Name, Scope: n.Scope, Inputs: args, Outputs: n.Outputs,
		Attrs: n.Attrs})
	if err != nil {
		return err
	}
	var states, before []*ir.Value
	for i := range len(n.Op.Out) - 1 {
		state, shaped := s.like("state", &ir.Value{Type: types[1+i]}, batch)
		if initial := s.initial(n.In(5 + i)); initial != nil {
			shaped = s.first(initial, shaped, batch)
		}
		states, before = append(states, state), append(before, shaped)
	}
	if s.Err() != nil {
		return s.Err()
	}
	after := func(i int) flow { return f.summed(s.own(n.In(5 + i))) }
	y := f // Y and X have the same axis of time
	if f.delay == 0 && (s.end == nil || !last) {
		for i, v := range before {
			args[5+i] = v
		}
		flows := []flow{y, after(0), after(1)}
		if err := s.keep(n, args, flows[:len(n.Outputs)]); err != nil {
			return err
		}
		for i, st := range states {
			s.hand(st, n.Outputs[1+i], batch)
		}
		return s.Err()
	}
	// Steps outside of the sequence must not change the states, so the layer runs step by step in a Scan.
	body := s.Sub(s.Unique(n.Op.Name + ".step"))
	cell := make([]*ir.Value, len(args))
	copy(cell, args)
	var olds []*ir.Value
	for i, v := range before {
		cell[5+i] = s.inner(body, "old", v.Type)
		olds = append(olds, cell[5+i])
	}
	xs := slices.Delete(slices.Clone(args[0].Shape()), axis, axis+1)
	x := s.inner(body, "x", &ir.TensorType{Elem: args[0].Elem(), Shape: xs})
	cell[0] = body.Op("", "Unsqueeze", []*ir.Value{x, body.Ints(int64(axis))})
	outs := body.Apply(n.Op, len(n.Op.Out), cell, n.Attrs)
	if body.Err() != nil {
		return body.Err()
	}
	outs[0].Def.Outputs[0] = nil
	for i := range olds {
		body.Output("", outs[1+i])
	}
	body.Output("", body.Op("", "Identity", []*ir.Value{outs[1]}))
	if _, err := body.Build(); err != nil {
		return err
	}
	in := append(slices.Clone(before), args[0])
	scan := &ir.Node{Op: ops.Default.Resolve("", "Scan", s.Graph().Opsets[""]), Name: n.Name, Scope: n.Scope,
		Inputs: in, Attrs: ir.NewAttrs(ir.A("body", body.Graph()),
			ir.A("num_scan_inputs", 1), ir.A("scan_input_axes", []int{axis}), ir.A("scan_output_axes", []int{axis}))}
	next, seq, err := s.gated(scan, f, slices.Repeat([]int{batch}, len(before)))
	if err != nil {
		return err
	}
	for i, st := range states {
		s.hand(st, next[i], batch)
		if i+1 < len(sources) {
			s.set(sources[1+i], next[i], after(i))
		}
	}
	if len(sources) > 0 {
		s.set(sources[0], seq[0], y)
	}
	return s.Err()
}

// inner adds an input with an unused name to a subgraph.
func (s *stepper) inner(body *ir.Builder, hint string, t ir.Type) *ir.Value {
	v := &ir.Value{Name: s.Unique(hint), Type: t}
	g := body.Graph()
	g.Inputs = append(g.Inputs, v)
	return v
}

// scan passes the states of an ONNX Scan from chunk to chunk.
func (s *stepper) scan(n *ir.Node) error {
	k := int(n.Attrs.Int("num_scan_inputs", 0))
	body := n.Attrs.Graph("body")
	held := len(n.Inputs) - k // number of states; by the operator's facts, inputs follow them
	for _, v := range n.Inputs[:held] {
		if s.flowOf(v).kind != Fixed {
			return &BlockedError{n, "has initial states that depend on time"}
		}
	}
	s.align(n)
	f := flow{}
	for _, v := range n.Inputs[held:] {
		if g := s.flowOf(v); g.kind == Sequence {
			f = g
		} else {
			return &BlockedError{n, "scans inputs that depend on time together with inputs that do not"}
		}
	}
	last := false
	for len(n.Outputs) < len(body.Outputs) {
		n.Outputs = append(n.Outputs, nil)
	}
	args := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		args[i] = s.get(v)
	}
	sources := slices.Clone(n.Outputs)
	var states []*ir.Value
	var batches []int
	for i, v := range sources[:held] {
		last = last || v != nil
		batch := -1
		if s.batch != nil {
			if v != nil {
				batch = s.batchAxis(v)
			}
			if a := s.batchAxis(n.In(i)); a >= 0 {
				batch = a
			} else if v == nil {
				batch = slices.IndexFunc(args[i].Shape(), func(d ir.Dim) bool { return d.Equal(s.samples()) })
			}
		}
		state, shaped := s.like("state", args[i], batch)
		if s.Err() != nil {
			return s.Err()
		}
		if initial := s.initial(n.In(i)); initial != nil {
			shaped = s.first(initial, shaped, batch)
		}
		args[i] = shaped
		states, batches = append(states, state), append(batches, batch)
	}
	after := func(i int) flow { return f.summed(s.own(n.In(i))) }
	axes := n.Attrs.Ints("scan_output_axes", make([]int64, len(sources)-held))
	of := func(i int) flow {
		y := f
		y.axis = 0
		if t, ok := body.Outputs[held+i].TensorType(); ok && !t.NoRank && i < len(axes) {
			y.axis, _ = ops.Axis(axes[i], len(t.Shape)+1)
		}
		return y
	}
	if f.delay == 0 && (s.end == nil || !last) {
		flows := make([]flow, len(sources))
		for i := range flows {
			if i >= held {
				flows[i] = of(i - held)
				continue
			}
			if flows[i] = after(i); n.Outputs[i] == nil {
				n.Outputs[i] = &ir.Value{Name: s.Unique("Scan.state"), Def: n}
			}
		}
		if err := s.keep(n, args, flows); err != nil {
			return err
		}
		for i, st := range states {
			s.hand(st, n.Outputs[i], batches[i])
		}
		return s.Err()
	}
	gate := &ir.Node{Op: n.Op, Name: n.Name, Scope: n.Scope, Inputs: args, Attrs: n.Attrs}
	next, seq, err := s.gated(gate, f, batches)
	if err != nil {
		return err
	}
	for i, v := range sources {
		if i < held {
			s.hand(states[i], next[i], batches[i])
			s.set(v, next[i], after(i))
		} else {
			s.set(v, seq[i-held], of(i-held))
		}
	}
	return s.Err()
}

// gated appends a Scan over chunks of a sequence f that lags or ends, whose states do not change at steps outside of
// the sequence. batches are the axes of the batch in the states. gated returns the last states and the sequences.
func (s *stepper) gated(n *ir.Node, f flow, batches []int) (last, sequences []*ir.Value, err error) {
	body := n.Attrs.Graph("body")
	held := len(batches)
	x := n.Inputs[held]
	// One truth value per sample and step.
	size := s.Op("", "Concat", []*ir.Value{s.Op("", "Shape", []*ir.Value{s.before()}),
		s.Op("", "Shape", []*ir.Value{x}, ir.A("start", f.axis), ir.A("end", f.axis+1))}, ir.A("axis", 0))
	all := s.Op("", "ConstantOfShape", []*ir.Value{size}, ir.A("value", tensor.FromSlice([]bool{true}, 1)))
	m := f
	m.axis = 1
	mask := s.maskFlow(m, 0, all, 0, true)
	if s.Err() != nil {
		return nil, nil, s.Err()
	}
	g := &ir.Graph{Name: body.Name, Inputs: slices.Clone(body.Inputs), Nodes: slices.Clone(body.Nodes),
		Outputs: slices.Clone(body.Outputs)}
	is := &ir.Value{Name: s.Unique("is_step"), Type: &ir.TensorType{Elem: tensor.Bool, Shape: ir.Shape{s.samples()}}}
	g.Inputs = append(g.Inputs, is)
	for i, batch := range batches {
		rank := len(g.Inputs[i].Shape())
		if _, single := s.samples().Known(); batch < 0 && !single {
			return nil, nil, &BlockedError{s.node, "keeps one state for all samples of sequences that lag"}
		}
		var axes []int64
		for a := range rank {
			if a != max(batch, 0) {
				axes = append(axes, int64(a))
			}
		}
		here := is
		add := func(op string, attrs ir.Attrs, in ...*ir.Value) *ir.Value {
			k := &ir.Node{Op: ops.Default.Resolve("", op, s.Graph().Opsets[""]), Inputs: in, Attrs: attrs}
			v := &ir.Value{Name: s.Unique("kept"), Def: k}
			k.Outputs = []*ir.Value{v}
			if e := ir.InferNode(k); e != nil && err == nil {
				err = e
			}
			g.Nodes = append(g.Nodes, k)
			return v
		}
		switch {
		case rank == 0:
			here = add("Squeeze", nil, is)
		case len(axes) > 0:
			here = add("Unsqueeze", nil, is, s.Ints(axes...))
		}
		g.Outputs[i] = add("Where", nil, here, body.Outputs[i], body.Inputs[i])
		if err != nil {
			return nil, nil, err
		}
	}
	k := n.Attrs.Int("num_scan_inputs", 1)
	inAxes := slices.Clone(n.Attrs.Ints("scan_input_axes", make([]int64, k)))
	n.Attrs = n.Attrs.With("body", g).With("num_scan_inputs", k+1).With("scan_input_axes",
		append(inAxes, 1)).Without("scan_input_directions")
	n.Inputs = append(n.Inputs, mask)
	for range g.Outputs {
		n.Outputs = append(n.Outputs, &ir.Value{Name: s.Unique("Scan.out"), Def: n})
	}
	if err := ir.InferNode(n); err != nil {
		return nil, nil, err
	}
	s.Graph().Nodes = append(s.Graph().Nodes, n)
	return n.Outputs[:held], n.Outputs[held:], nil
}
