package stepgraph

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// handlers holds the operators that keep a state between chunks.
var handlers map[string]handler

func init() {
	handlers = map[string]handler{
		"essm.Scan": (*stepper).system, "essm.DenseScan": (*stepper).system, "essm.SSM": (*stepper).system,
		"essm.DenseSSM": (*stepper).system, "essm.StateSpace": (*stepper).system,
		"essm.SelectiveScan": (*stepper).system, "essm.GatedScan": (*stepper).system,
		"essm.DPLR": (*stepper).system, "essm.DPLRScan": (*stepper).system,
		"essm.Block": (*stepper).block, "essm.Pick": (*stepper).pick, "essm.LongConv": (*stepper).longConv,
		"Conv": (*stepper).conv, "MaxPool": (*stepper).pool, "AveragePool": (*stepper).pool, "LpPool": (*stepper).pool,
		"CausalConvWithState": (*stepper).causalConv, "Pad": (*stepper).pad, "Slice": (*stepper).cut,
		"Gather": (*stepper).gather, "CumSum": (*stepper).cumulate, "CumProd": (*stepper).cumulate,
		"RNN": (*stepper).recurrent, "GRU": (*stepper).recurrent, "LSTM": (*stepper).recurrent, "Scan": (*stepper).scan,
	}
	for name := range reductions {
		handlers[name] = (*stepper).reduce
	}
}

// causal reports whether a system only looks back.
func causal(n *ir.Node) bool {
	return n.Attrs.Str("direction", "forward") == "forward" && !n.Attrs.Bool("bidirectional", false)
}

// system gives a state-space operator a state in float64. If it were rounded to float32 after each chunk, slow states
// would lose the small contributions of single steps.
func (s *stepper) system(n *ir.Node) error {
	if !causal(n) {
		return s.windowed(n)
	}
	for i, v := range n.Inputs {
		if f := s.flowOf(v); f.kind != Fixed && f.axis != 1 && i != len(n.Op.In)-1 {
			return &BlockedError{n, "has coefficients that depend on time"}
		}
	}
	s.align(n)
	args := make([]*ir.Value, len(n.Op.In))
	for i, v := range n.Inputs {
		args[i] = s.get(v)
		if f := s.flowOf(v); f.kind == Sequence {
			args[i] = s.within(v, args[i], 0)
		}
	}
	was := n.In(len(args) - 1)
	state, next, err := s.hold(n, args)
	if err != nil {
		return err
	}
	if initial := s.initial(was); initial != nil {
		args[len(args)-1] = s.first(initial, state, 0)
	}
	f := s.flowOf(n.In(0))
	flows := make([]flow, len(n.Outputs))
	for i := range flows {
		flows[i] = f
	}
	flows[len(flows)-1] = f.summed(true)
	elem := args[0].Elem()
	if err := s.keep(n, args, flows); err != nil {
		return err
	}
	s.pass(state, next)
	s.set(next, s.Op("", "Cast", []*ir.Value{next}, ir.A("to", int(elem))), flows[len(flows)-1])
	return nil
}

// windowed computes a system that looks ahead by its window, on the chunk and the steps around it.
func (s *stepper) windowed(n *ir.Node) error {
	window := max(n.Attrs.Int("window", 0), n.Attrs.Int("max_kernel_length", 0))
	if window == 0 || s.flowOf(n.In(0)).axis != 1 {
		return s.why(n, ir.Fact{Ahead: ir.Unbounded})
	}
	direction := n.Attrs.Str("direction", "bidirectional")
	back, ahead := reach(direction, window)
	inputs := []int{0}
	if n.Op.FullName() == "essm.Scan" {
		inputs = append(inputs, 5)
	}
	for i, v := range n.Inputs {
		if s.flowOf(v).kind != Fixed && !slices.Contains(inputs, i) {
			return &BlockedError{n, "has coefficients that depend on time"}
		}
	}
	return s.around(n, back, ahead, inputs, len(n.Op.Out)-1)
}

// hold adds the state of a system, and its next state, which becomes the node's last output.
func (s *stepper) hold(n *ir.Node, args []*ir.Value) (state, next *ir.Value, err error) {
	last := len(n.Op.Out) - 1
	for len(n.Outputs) <= last {
		n.Outputs = append(n.Outputs, nil)
	}
	if n.Outputs[last] == nil {
		n.Outputs[last] = &ir.Value{Name: s.Unique(n.Op.Name + ".state"), Def: n}
	}
	next = n.Outputs[last]
	args[len(args)-1] = nil
	types, err := ir.Infer(&ir.Node{Op: n.Op, Name: n.Name, Scope: n.Scope, Inputs: args, Outputs: n.Outputs,
		Attrs: n.Attrs})
	if err != nil {
		return nil, nil, err
	}
	shape := types[last].(*ir.TensorType).Shape
	state = s.state("state", tensor.Float64, shape[0], shape[1:]...)
	args[len(args)-1] = state
	return state, next, s.Err()
}

// initial returns the step graph's value for an initial state v of the source. It returns nil if there is none, or if
// it is part of a state that is zeros unless the caller gives it: that is among the states of the step graph.
func (s *stepper) initial(v *ir.Value) *ir.Value {
	if v == nil || s.unset(v) {
		return nil
	}
	return s.get(v)
}

// own reports whether v is the initial value of one of the model's own states. The step graph carries these, so it
// has no output for the value after the sequence.
func (s *stepper) own(v *ir.Value) bool { return v != nil && s.unset(v) }

// unset reports whether a value depends only on inputs that are zeros unless the caller gives them: the layers' own
// states, and optional inputs of essm.StateOrZero.
func (s *stepper) unset(v *ir.Value) bool {
	if slices.Contains(s.given, v) {
		return true
	}
	if v.Def == nil || len(v.Def.Inputs) == 0 {
		return false
	}
	switch v.Def.Op.FullName() {
	case "essm.StateOrZero":
		given := v.Def.In(1)
		if given == nil {
			return true
		}
		if _, optional := given.Type.(*ir.OptionalType); optional {
			return true
		}
		return s.unset(given)
	case "Split", "Slice", "Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Gather":
		return s.unset(v.Def.In(0))
	}
	return false
}

// first returns initial before the first step, and state afterwards. batch is the axis of the batch in both.
func (s *stepper) first(initial, state *ir.Value, batch int) *ir.Value {
	if s.Err() != nil {
		return nil
	}
	if initial.Elem() != state.Elem() {
		initial = s.Op("", "Cast", []*ir.Value{initial}, ir.A("to", int(state.Elem())))
	}
	rank := len(state.Shape())
	is := s.Op("", "Equal", []*ir.Value{s.before(), s.Const("zero", tensor.Scalar(int64(0)))})
	var axes []int64
	for i := range rank {
		if i != max(batch, 0) {
			axes = append(axes, int64(i))
		}
	}
	if len(axes) > 0 {
		is = s.Op("", "Unsqueeze", []*ir.Value{is, s.Ints(axes...)})
	}
	return s.Op("", "Where", []*ir.Value{is, initial, state})
}

// align gives all sequences that a node reads the same lag, and returns it.
func (s *stepper) align(n *ir.Node) (delay int64) {
	for _, v := range n.Inputs {
		if f := s.flowOf(v); f.kind == Sequence {
			delay = max(delay, f.delay)
		}
	}
	for _, v := range n.Inputs {
		if f := s.flowOf(v); f.kind == Sequence && f.delay < delay {
			s.lag(v, delay-f.delay)
		}
	}
	return delay
}

// within returns x, which replaces v, with value instead of everything before the sequence's first step.
func (s *stepper) within(v, x *ir.Value, value float64) *ir.Value {
	if s.flowOf(v).delay == 0 {
		return x
	}
	return s.mask(v, x, 0, value, false)
}

// mask returns x, which replaces v with more additional steps at the front, with value instead of everything before
// the sequence's first step and, if end is set, of everything after its last step.
func (s *stepper) mask(v, x *ir.Value, more int64, value float64, end bool) *ir.Value {
	f := s.flowOf(v)
	f.delay += more
	return s.maskFlow(f, s.batchAxis(v), x, value, end)
}

func (s *stepper) maskFlow(f flow, batch int, x *ir.Value, value float64, end bool) *ir.Value {
	in := []*ir.Value{x, s.before()}
	if end && s.end != nil {
		in = append(in, s.end)
	}
	return s.Op("essm", "StepMask", in, ir.A("axis", f.axis), ir.A("batch_axis", batch), ir.A("rate", f.rate),
		ir.A("offset", f.offset), ir.A("delay", f.delay), ir.A("value", value))
}

// block passes the states of the systems in a Block through it. It expands a Block of a lagging sequence, and a Block
// with nodes that need more than a state for a chunk.
func (s *stepper) block(n *ir.Node) error {
	body := n.Attrs.Graph("body")
	seed := map[*ir.Value]ir.Fact{}
	apart := s.align(n) > 0
	for i, v := range body.Inputs {
		in := n.In(i)
		s.flows[v] = s.flowOf(in)
		if in != nil && s.isSettled(in) {
			s.settled[v] = true
		}
		if s.batch != nil {
			seed[v] = s.batch.Of(in)
		}
	}
	if s.batch != nil {
		s.batch.Extend(body, seed)
	}
	flows := make(map[*ir.Value]flow, len(body.Nodes))
	for _, m := range body.Nodes {
		apart = apart || !s.fused(m, flows, body)
	}
	if apart {
		for i, v := range body.Inputs {
			s.of[v] = s.get(n.In(i))
		}
		for _, m := range body.Nodes {
			if err := s.move(m); err != nil {
				return err
			}
		}
		for i, v := range n.Outputs {
			if v != nil {
				s.set(v, s.get(body.Outputs[i]), s.flowOf(body.Outputs[i]))
			}
		}
		s.node = n
		return nil
	}
	args := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		args[i] = s.get(v)
	}
	var states, nexts []*ir.Value
	for i, v := range body.Inputs { // the size of the state is inferred from the types in the body
		v.Type = args[i].Type
	}
	for _, m := range body.Nodes {
		if ops.IsSystem(m.Op) {
			inner := make([]*ir.Value, len(m.Op.In))
			copy(inner, m.Inputs)
			was := m.In(len(inner) - 1)
			kept := m.Out(len(m.Op.Out) - 1)
			state, next, err := s.hold(m, inner)
			if err != nil {
				return err
			}
			given := state
			if i := slices.Index(body.Inputs, was); was != nil && i >= 0 {
				if initial := s.initial(n.In(i)); initial != nil {
					given = s.first(initial, state, 0)
				}
			}
			in := &ir.Value{Name: s.Unique(state.Name + ".in"), Type: state.Type}
			inner[len(inner)-1] = in
			m.Inputs = inner
			body.Inputs = append(body.Inputs, in)
			args = append(args, given)
			states = append(states, state)
			if i := slices.Index(body.Outputs, kept); kept != nil && i >= 0 {
				nexts = append(nexts, n.Outputs[i])
			} else {
				out := &ir.Value{Name: s.Unique(state.Name + ".out"), Def: n}
				body.Outputs = append(body.Outputs, next)
				n.Outputs = append(n.Outputs, out)
				nexts = append(nexts, out)
			}
		}
		if err := s.infer(m); err != nil {
			return err
		}
	}
	uses := body.Uses()
	for i := len(body.Inputs) - 1; i >= 0; i-- { // the initial states of the source
		if v := body.Inputs[i]; len(uses[v]) == 0 {
			body.Inputs, args = slices.Delete(body.Inputs, i, i+1), slices.Delete(args, i, i+1)
		}
	}
	of := make([]flow, len(n.Outputs))
	for i, v := range body.Outputs {
		of[i] = flows[v]
		if f, ok := s.flows[v]; ok {
			of[i] = f
		}
	}
	for _, v := range nexts {
		of[slices.Index(n.Outputs, v)] = flow{kind: Summary, axis: -1, rate: 1, own: true}
	}
	if err := s.keep(n, args, of); err != nil {
		return err
	}
	for i, v := range nexts {
		s.pass(states[i], v)
		s.set(v, s.Op("", "Cast", []*ir.Value{v}, ir.A("to", int(tensor.Float32))), s.flowOf(v))
	}
	return nil
}

// fused reports whether a node may stay in the body of a Block: it is a causal system, or computes each step
// separately. It records the flows of its outputs.
func (s *stepper) fused(n *ir.Node, flows map[*ir.Value]flow, body *ir.Graph) bool {
	at := func(v *ir.Value) flow {
		if f, ok := flows[v]; ok {
			return f
		}
		return s.flowOf(v)
	}
	if ops.IsSystem(n.Op) {
		f := at(n.In(0))
		for i, v := range n.Inputs {
			if g := at(v); g.kind != Fixed && (g.kind != Sequence || g.axis != 1) || i > 0 && i < len(n.Op.In)-1 &&
				!s.isSettled(v) && g.kind == Fixed {
				return false
			}
		}
		for _, v := range n.Outputs {
			if v != nil {
				flows[v] = f
			}
		}
		// A state that is computed in the body, and is not an input of it, is not passed on.
		was := n.In(len(n.Op.In) - 1)
		return causal(n) && f.kind == Sequence && (was == nil || slices.Contains(body.Inputs, was))
	}
	if len(n.Subgraphs()) > 0 || handlers[n.Op.FullName()] != nil {
		return false
	}
	in := make([]ir.Fact, len(n.Inputs))
	varies := false
	var offset int64
	for i, v := range n.Inputs {
		f := at(v)
		in[i] = f.fact(s.symbol)
		varies = varies || f.kind == Sequence
		if f.kind == Sequence {
			offset = f.offset
		}
	}
	if s.noteSettled(n); !varies {
		for _, v := range n.Outputs {
			flows[v] = flow{kind: Fixed, axis: -1, rate: 1}
		}
		return true
	}
	for i, f := range ops.Along(n, in) {
		if f.Global || f.Back != 0 || f.Ahead != 0 || f.Axis < 0 {
			return false
		}
		flows[n.Out(i)] = flow{kind: Sequence, axis: f.Axis, rate: f.Stride, offset: offset}
	}
	return true
}
