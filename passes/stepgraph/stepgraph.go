// Package stepgraph makes step graphs. The step graph of a model for whole sequences computes one chunk of a sequence,
// with the state between chunks as inputs and outputs.
//
// It imports ir, ir/tensor and ops only. A step graph is an ordinary portable graph. For any division of a sequence
// into chunks, its results are those of the source for the whole sequence. The state before the first step is all
// zeros.
package stepgraph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Graph computes a chunk of a sequence, of any number of steps, from the chunk and the state before it. Chunk by
// chunk it computes the results of its source for the whole sequence.
//
// The first Delay steps of an output that lags are meaningless, and callers drop them. To get its last steps,
// callers feed Flush more steps of any content, and pass the end of the sequence in the input End.
type Graph struct {
	// Graph has the inputs of the source, where the time symbol is the number of steps of the chunk, then End, if
	// there is such an input, then one input per state. It has the outputs of the source, then one output per state.
	// Inputs and outputs of the source for the model's own state are omitted, since they are among the states.
	Graph *ir.Graph
	// States are in the order of their inputs and outputs.
	States []State
	// Outputs describes the outputs that are not states, in the order of the graph's.
	Outputs []Output
	// Latency is the largest lag of an output behind the inputs, in steps of the input. It is 0 for a causal model.
	Latency int64
	// Flush is the number of steps to feed after the end to get the last steps of all outputs, and final summaries.
	Flush int64
	// Multiple divides the number of steps of every chunk. The graph's time dimension has it as a factor ("4*L"), so
	// other chunks are refused like any wrong shape. It is above 1 if the model has strides. A sequence that ends
	// within a chunk is padded, and End gives its end.
	Multiple int64
	// End names an optional input, int64[B], with the number of steps of each sequence. It must be given with the chunk
	// in which the sequence ends and from then on, and may be given earlier. It is empty if no value depends on later
	// steps.
	End string
}

// State is a value that is passed from one chunk to the next.
type State struct {
	Name  string // input: the state before the chunk
	Next  string // output: the state after the chunk
	DType tensor.DType
	// Shape has the batch as its first dimension: B, or 2*P for pairs, or 1 if the value is the same for all samples.
	// The other dimensions are numbers.
	Shape ir.Shape
	Node  string // the owner of the state, for messages
	Scope string // the part of the model that it is in
}

// OutputKind is how an output of a step graph relates to time.
type OutputKind int

// The kinds of outputs.
const (
	Sequence OutputKind = iota // the steps of the chunk
	Summary                    // the result so far, as if the sequence ended here
	Fixed                      // independent of time
	Chunk                      // describes the chunk, in a graph that takes chunks itself (ir.MetaCarry)
)

// String returns the name of the kind for messages.
func (k OutputKind) String() string { return [...]string{"sequence", "summary", "fixed", "chunk"}[k] }

// Output describes how an output of a step graph relates to time.
type Output struct {
	Name string
	Kind OutputKind
	Axis int // time axis of a sequence; otherwise -1
	// Rate is the number of steps of the input per step of the output.
	Rate int64
	// Delay is the number of steps of the output before its first one. For a summary it is the lag in steps of the
	// input.
	Delay  int64
	offset int64
}

// Steps returns the total number of steps of the output for a sequence of n steps.
func (o Output) Steps(n int64) int64 { return max(0, floorDiv(n+o.offset, o.Rate)) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Of returns the step graph of g, and does not change g. If a value depends on later steps without bound, or on the
// whole sequence at once, the error is a *BlockedError that names the operator and its part of the model.
//
// A graph with ir.MetaCarry, which maps inputs for the state before a chunk to outputs for the state after it, is
// its own step graph. A graph with ir.MetaState, which names the input for the states of its layers, has an ordinary
// step graph: that input is zeros before the first step, and the states of the layers become states of the step
// graph.
//
// The step graph has the parameters of g, in the same order, and no updates: a set of parameters that runs update has
// no streams.
//
// If outputs are named, the step graph has only these outputs of g, and other outputs cannot block it. It always has
// all states, so that they do not depend on the names. An input that neither these outputs nor a state needs becomes
// optional, unless it is the first one with the time dimension, by which steps are counted.
func Of(g *ir.Graph, outputs ...string) (*Graph, error) {
	for _, name := range outputs {
		if output(g, name) == nil {
			return nil, fmt.Errorf("graph %s has no output %q", g.Name, name)
		}
	}
	pairs, err := Pairs(g, ir.MetaCarry)
	var s *Graph
	switch {
	case err != nil:
	case len(pairs) > 0:
		s, err = carried(g, pairs)
	default:
		s, err = step(g, outputs, false)
		if err == nil && (s.Flush > 0 || s.Multiple > 1) {
			s, err = step(g, outputs, true)
		}
	}
	if err == nil && len(outputs) > 0 {
		err = s.selectOutputs(outputs)
	}
	if err != nil {
		return nil, fmt.Errorf("graph %s has no step graph: %w", g.Name, err)
	}
	return s, nil
}

// selectOutputs leaves the named outputs, and the states.
func (s *Graph) selectOutputs(names []string) error {
	s.Outputs = slices.DeleteFunc(s.Outputs, func(o Output) bool { return !slices.Contains(names, o.Name) })
	if len(s.Outputs) == 0 {
		return fmt.Errorf("the requested outputs, %s, are its own state", strings.Join(names, ", "))
	}
	s.Latency, s.Flush = 0, 0
	keep := make([]string, 0, len(s.Outputs)+len(s.States))
	for _, o := range s.Outputs {
		s.delayed(o)
		keep = append(keep, o.Name)
	}
	for _, t := range s.States {
		keep = append(keep, t.Next)
	}
	symbol, given := s.Graph.Meta[ir.MetaTime], s.Graph.Inputs[:len(s.Graph.Inputs)-len(s.States)]
	timed := slices.IndexFunc(given, func(v *ir.Value) bool {
		return slices.ContainsFunc(v.Shape(), func(d ir.Dim) bool { return slices.Contains(d.Symbols(), symbol) })
	})
	s.Graph.SelectOutputs(keep, func(v *ir.Value) bool {
		i := slices.Index(given, v)
		return i < 0 || i == timed
	})
	return ir.Verify(s.Graph)
}

// delayed raises Latency and Flush to the values of an output.
func (s *Graph) delayed(o Output) {
	lag := o.Delay * o.Rate
	s.Latency = max(s.Latency, lag)
	s.Flush = max(s.Flush, lag+o.offset)
}

// BlockedError is the error for a graph that cannot run step by step. It holds the node that prevents it, and the
// reason.
type BlockedError struct {
	Node *ir.Node
	Why  string
}

// Error returns a text such as "layers.0 (essm.SSM): bidirectional, looks ahead without bound".
func (e *BlockedError) Error() string { return (&ops.Blocker{Node: e.Node, Why: e.Why}).String() }

// flow relates the value of the step graph for a value of the source to time.
type flow struct {
	kind OutputKind
	axis int
	// Step t of the value is at index t+delay from the first step ever fed, in steps of the value. For a sequence of n
	// steps, the value has floor((n+offset)/rate) steps.
	rate, offset, delay int64
	blocked             *BlockedError // the value cannot be computed, but its sizes may be read
	own                 bool          // the value is the model's own state after the chunk
}

// summed returns the flow of a summary over the steps of f. own reports whether it is the model's own state.
func (f flow) summed(own bool) flow {
	return flow{kind: Summary, axis: -1, rate: 1, delay: f.delay * f.rate, offset: f.offset, own: own}
}

func (f flow) steps() Output { return Output{Rate: f.rate, Delay: f.delay, offset: f.offset} }

// fact returns the fact of a value of this flow, if the step graph's inputs are of the same flow.
func (f flow) fact(symbol string) ir.Fact {
	switch {
	case f.blocked != nil:
		return ir.Fact{Symbol: symbol, Axis: f.axis, Stride: 1, Back: ir.Unbounded, Ahead: ir.Unbounded, Global: true,
			Cause: f.blocked.Node}
	case f.kind == Sequence:
		return ir.Fact{Symbol: symbol, Axis: f.axis, Stride: f.rate}
	case f.kind == Summary:
		return ir.Fact{Symbol: symbol, Axis: -1, Stride: 1}
	}
	return ir.Fact{}
}

// stepper makes a step graph from a copy of the source, node by node.
type stepper struct {
	*ir.Builder
	out     *Graph
	symbol  string
	batch   *ops.Facts
	time    *ops.Facts
	of      map[*ir.Value]*ir.Value // from values of the source to values of the step graph
	flows   map[*ir.Value]flow      // of the source's values
	settled map[*ir.Value]bool      // of the source's values: they follow from constants and parameters
	input   *ir.Value               // one of the inputs that vary along time
	asked   []string                // the outputs that may not be blocked; empty: all
	given   []*ir.Value             // inputs for the layers' own states (ir.MetaState)
	steps   *ir.Value               // the number of steps before the chunk, int64[B]; nil until it is needed
	end     *ir.Value               // input End; nil: there is none
	node    *ir.Node                // being moved
	next    []*ir.Value             // per state, its value after the chunk
}

// handler makes the step form of a node that is not computed step by step.
type handler func(s *stepper, n *ir.Node) error

// step makes the step graph, with the input End or without, of all outputs that are not blocked. An output that is
// asked for, or all if none is, must not be. Since files determine the arguments of handlers, a panic in one is
// returned as an error.
func step(source *ir.Graph, asked []string, end bool) (sg *Graph, err error) {
	s := &stepper{asked: asked, of: map[*ir.Value]*ir.Value{}, flows: map[*ir.Value]flow{},
		settled: map[*ir.Value]bool{}}
	defer func() {
		if v := recover(); v != nil {
			sg, err = nil, fmt.Errorf("node %v: internal error: %v", s.node, v)
		}
	}()
	g := source.Clone()
	g.Updates = nil
	own, err := Pairs(g, ir.MetaState)
	if err != nil {
		return nil, err
	}
	for _, p := range own {
		s.given = append(s.given, g.Input(p.In))
	}
	if err := ops.Upgrade(g); err != nil {
		return nil, err
	}
	facts := ops.TimeFacts(g)
	if facts == nil {
		return nil, fmt.Errorf("it declares no time dimension (%s)", ir.MetaTime)
	}
	if g.Opsets == nil {
		g.Opsets = map[string]int{}
	}
	for domain, v := range ops.Opsets() {
		g.Opsets[domain] = max(v, g.Opsets[domain])
	}
	s.Builder, s.symbol, s.time, s.batch = ir.Edit(g, ops.Default, g.Opsets), facts.Symbol, facts, ops.BatchFacts(g)
	s.out = &Graph{Graph: g, Multiple: 1}
	if err := s.inputs(); err != nil {
		return nil, err
	}
	if end {
		s.out.End = s.Unique("end")
		s.end = &ir.Value{Name: s.out.End, Type: &ir.OptionalType{Elem: &ir.TensorType{Elem: tensor.Int64,
			Shape: ir.Shape{s.samples()}}}}
		g.Inputs = append(g.Inputs, s.end)
	}
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		if err := s.move(n); err != nil {
			return nil, err
		}
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	return s.out, ir.Verify(g)
}

// maxMultiple bounds the number that must divide the length of a chunk.
const maxMultiple = 1 << 20

// inputs finds the flows of the inputs, and the number that must divide the length of a chunk.
func (s *stepper) inputs() error {
	g := s.Graph()
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			if f := s.time.Of(v); f.Stride > 1 && !f.Global {
				s.out.Multiple = lcm(s.out.Multiple, f.Stride)
				if s.out.Multiple > maxMultiple {
					return fmt.Errorf("node %v: chunks would have to be multiples of more than %d steps", n,
						maxMultiple)
				}
			}
		}
	}
	for _, v := range g.Inputs {
		s.of[v] = v
		f := s.time.Of(v)
		if f.Constant() {
			s.flows[v] = flow{kind: Fixed, axis: -1, rate: 1}
			continue
		}
		t, ok := v.Type.(*ir.TensorType)
		name, plain := v.Shape()[f.Axis].Symbol()
		if !ok || !plain || name != s.symbol {
			return fmt.Errorf("input %s: expected a tensor with dimension %s, found %v", v.Name, s.symbol, v.Type)
		}
		shape := slices.Clone(t.Shape)
		shape[f.Axis] = ir.Sym(s.symbol).Mul(ir.Const(s.out.Multiple))
		v.Type = &ir.TensorType{Elem: t.Elem, Shape: shape}
		s.flows[v] = flow{kind: Sequence, axis: f.Axis, rate: 1}
		if s.input == nil {
			s.input = v
		}
	}
	if s.input == nil {
		return fmt.Errorf("no input has the time dimension %s", s.symbol)
	}
	return nil
}

func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// samples returns the leading dimension of values with one element per sample.
func (s *stepper) samples() ir.Dim {
	if a := s.batchAxis(s.input); a >= 0 {
		return s.input.Shape()[a]
	}
	return ir.Const(1)
}

// batchAxis returns the axis of the batch in a value of the source, or -1.
func (s *stepper) batchAxis(v *ir.Value) int {
	if s.batch == nil {
		return -1
	}
	if f := s.batch.Of(v); !f.Constant() && !f.Global {
		return f.Axis
	}
	return -1
}

// flowOf returns the flow of a value of the source. Constants do not vary.
func (s *stepper) flowOf(v *ir.Value) flow {
	if f, ok := s.flows[v]; ok {
		return f
	}
	return flow{kind: Fixed, axis: -1, rate: 1}
}

// get returns the value of the step graph for a value of the source.
func (s *stepper) get(v *ir.Value) *ir.Value {
	if w, ok := s.of[v]; ok {
		return w
	}
	return v // a constant, or nil
}

// set sets the value of the step graph for v, with its flow.
func (s *stepper) set(v, with *ir.Value, f flow) {
	if v != nil {
		s.of[v], s.flows[v] = with, f
	}
}

// isSettled reports whether a value follows from constants and parameters.
func (s *stepper) isSettled(v *ir.Value) bool {
	return v == nil || v.Const != nil || v.Init != nil || s.settled[v]
}

// noteSettled notes the outputs of a node that are settled.
func (s *stepper) noteSettled(n *ir.Node) {
	if len(s.Graph().Parameters) == 0 || n.Op.Random || len(n.Subgraphs()) > 0 ||
		slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return !s.isSettled(v) }) {
		return
	}
	for _, v := range n.Outputs {
		s.settled[v] = true
	}
}

// move adds a node to the step graph.
func (s *stepper) move(n *ir.Node) error {
	s.node = n
	s.Scope(n.Scope)
	own, states, sequences := true, false, false
	in := make([]ir.Fact, len(n.Inputs))
	var blocked *BlockedError
	for i, v := range n.Inputs {
		f := s.flowOf(v)
		in[i] = f.fact(s.symbol)
		own = own && (f.own || v != nil && s.isSettled(v))
		states = states || f.own
		sequences = sequences || f.kind == Sequence
		if f.blocked != nil && blocked == nil {
			blocked = f.blocked
		}
	}
	own = own && states // constants are not a state
	s.noteSettled(n)
	facts := make([]ir.Fact, len(n.Outputs))
	switch {
	case !slices.ContainsFunc(in, func(f ir.Fact) bool { return !f.Constant() }) && !s.captures(n):
	case s.captures(n):
		facts = globals(n, s.symbol)
	default:
		facts = ops.Along(n, in)
	}
	if blocked == nil && (slices.ContainsFunc(facts, func(f ir.Fact) bool {
		return f.Back != 0 || f.Ahead != 0 || f.Global
	}) || s.changesLength(n, facts)) {
		if h := handlers[n.Op.FullName()]; h != nil && !s.captures(n) && s.ranked(n) {
			if err := h(s, n); err != nil {
				return err
			}
			return s.Err()
		}
		for i, f := range facts {
			if !f.Constant() {
				facts[i] = globals(n, s.symbol)[0]
			}
		}
	}
	// Every other node stays as it is. Its results from blocked values may still be sizes.
	delay, offset := int64(0), int64(0)
	sum := flow{kind: Summary, axis: -1, rate: 1} // the last summary among the inputs
	for _, v := range n.Inputs {
		switch f := s.flowOf(v); {
		case f.blocked != nil:
		case f.kind == Sequence:
			delay, offset = max(delay, f.delay), f.offset
		case f.kind == Summary && f.delay+f.offset >= sum.delay+sum.offset:
			sum.delay, sum.offset = f.delay, f.offset
		}
	}
	if blocked == nil {
		for _, v := range n.Inputs {
			if f := s.flowOf(v); f.kind == Sequence && f.delay < delay {
				s.lag(v, delay-f.delay)
			}
		}
	}
	args := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		args[i] = s.get(v)
	}
	flows := make([]flow, len(n.Outputs))
	for i, f := range facts {
		flows[i] = flow{kind: Fixed, axis: -1, rate: 1, own: own}
		switch {
		case f.Constant():
		case f.Global || f.Back != 0 || f.Ahead != 0:
			if flows[i].blocked = blocked; blocked == nil {
				flows[i].blocked = s.why(n, f)
			}
		case f.Axis >= 0:
			flows[i] = flow{kind: Sequence, axis: f.Axis, rate: f.Stride, offset: offset, delay: delay}
		default:
			flows[i] = sum
			flows[i].own = own
		}
	}
	return s.keep(n, args, flows)
}

// changesLength reports whether a node that computes each step separately adds or removes steps at the end, or takes
// elements for each step from a value of its own length. In a chunk, which is not the whole sequence, that is wrong.
func (s *stepper) changesLength(n *ir.Node, facts []ir.Fact) bool {
	if len(n.Subgraphs()) > 0 || !slices.ContainsFunc(facts,
		func(f ir.Fact) bool { return f.Axis >= 0 && !f.Constant() }) {
		return false
	}
	if s.perStep(n, facts[0]) {
		return true
	}
	args := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		args[i] = s.get(v)
	}
	types, err := ir.Infer(&ir.Node{Op: n.Op, Name: n.Name, Scope: n.Scope, Inputs: args, Outputs: n.Outputs,
		Attrs: n.Attrs})
	if err != nil {
		return false // the error occurs again in keep
	}
	for i, f := range facts {
		if i >= len(types) || f.Axis < 0 || f.Constant() || f.Global || n.Outputs[i] == nil {
			continue
		}
		t, ok := ir.AsTensor(types[i])
		if !ok || t.NoRank || f.Axis >= len(t.Shape) {
			continue
		}
		want := ir.Sym(s.symbol).Mul(ir.Const(s.out.Multiple)).FloorDiv(ir.Const(f.Stride))
		if d := t.Shape[f.Axis]; !d.Equal(want) && (!d.IsUnknown() || handlers[n.Op.FullName()] != nil) {
			return true
		}
	}
	return false
}

// perStep reports whether an operand of an elementwise node that does not vary has several elements along time: a
// number of them, or one for each sample.
func (s *stepper) perStep(n *ir.Node, f ir.Fact) bool {
	if n.Op.Element == nil || f.Axis < 0 || f.Constant() {
		return false
	}
	rank := len(n.Outputs[0].Shape())
	for _, v := range n.Inputs {
		if v == nil || s.flowOf(v).kind != Fixed {
			continue
		}
		shape := s.get(v).Shape()
		if a := f.Axis - rank + len(shape); a >= 0 && a < len(shape) {
			if k, known := shape[a].Known(); known && k != 1 || !known && shape[a].Equal(s.samples()) {
				return true
			}
		}
	}
	return false
}

// ranked reports whether the shapes of the node's inputs are known to the extent that its handler requires.
func (s *stepper) ranked(n *ir.Node) bool {
	for _, v := range n.Inputs {
		if f := s.flowOf(v); f.kind == Sequence && len(s.get(v).Shape()) <= f.axis {
			return false
		}
	}
	return true
}

func globals(n *ir.Node, symbol string) []ir.Fact {
	out := make([]ir.Fact, len(n.Outputs))
	for i := range out {
		out[i] = ir.Fact{Symbol: symbol, Axis: -1, Stride: 1, Back: ir.Unbounded, Ahead: ir.Unbounded, Global: true,
			Cause: n}
	}
	return out
}

// captures reports whether a subgraph of the node reads a value that varies along time, or cannot be computed in
// chunks.
func (s *stepper) captures(n *ir.Node) bool {
	for _, sub := range n.Subgraphs() {
		for _, v := range sub.Captures() {
			if f := s.flowOf(v); f.kind != Fixed || f.blocked != nil {
				return true
			}
		}
	}
	return false
}

// why returns the reason why a node cannot be computed in chunks.
func (s *stepper) why(n *ir.Node, f ir.Fact) *BlockedError {
	why := "needs the whole sequence at once"
	switch {
	case f.Global:
		if d := n.Attrs.Str("direction", ""); d != "" && d != "forward" {
			why = d + ", looks ahead without bound"
		}
	case f.Ahead >= ir.Unbounded:
		why = "looks ahead without bound"
		if d := n.Attrs.Str("direction", ""); d != "" {
			why = d + ", " + why
		} else if n.Attrs.Bool("bidirectional", false) {
			why = "bidirectional, " + why
		}
	case f.Back >= ir.Unbounded && !f.Summary:
		why = "looks back without bound, and has no state of fixed size"
	default:
		why = "reads other steps than its own, in a way that cannot be computed in chunks"
	}
	return &BlockedError{Node: n, Why: why}
}

// keep adds a node as it is, with the given inputs and flows of outputs.
func (s *stepper) keep(n *ir.Node, args []*ir.Value, flows []flow) error {
	for _, sub := range n.Subgraphs() {
		for _, v := range sub.Captures() {
			if w := s.get(v); w != v {
				sub.ReplaceUses(v, w)
			}
		}
	}
	n.Inputs = args
	if err := s.infer(n); err != nil {
		return err
	}
	g := s.Graph()
	g.Nodes = append(g.Nodes, n)
	for i, v := range n.Outputs {
		s.set(v, v, flows[i])
	}
	return nil
}

// infer sets the types of a node's outputs, and of the body of a Block. Dimensions along time differ from those of the
// source.
func (s *stepper) infer(n *ir.Node) error {
	if body := n.Attrs.Graph("body"); body != nil && n.Op.FullName() == "essm.Block" {
		if len(body.Inputs) != len(n.Inputs) {
			return fmt.Errorf("node %v: body has %d inputs, the node %d", n, len(body.Inputs), len(n.Inputs))
		}
		for i, v := range body.Inputs {
			v.Type = n.Inputs[i].Type
		}
		for _, m := range body.Nodes {
			if err := s.infer(m); err != nil {
				return err
			}
		}
	}
	return ir.InferNode(n)
}

// finish makes the outputs: the source's outputs other than its own state, then the states.
func (s *stepper) finish() error {
	g := s.Graph()
	var outputs []*ir.Value
	for _, v := range g.Outputs {
		f := s.flowOf(v)
		if f.blocked != nil && (len(s.asked) == 0 || slices.Contains(s.asked, v.Name)) {
			return f.blocked
		}
		if f.own || f.blocked != nil {
			continue
		}
		o := f.steps()
		o.Name, o.Kind, o.Axis = v.Name, f.kind, f.axis
		if o.Kind != Sequence {
			o.Axis = -1
		}
		s.out.Outputs = append(s.out.Outputs, o)
		s.out.delayed(o)
		w := s.get(v)
		if w != v { // the step graph computes another value of the same name
			name := v.Name
			v.Name = s.Unique(name)
			w = s.named(name, w, outputs, v)
		}
		outputs = append(outputs, w)
	}
	if len(outputs) == 0 {
		return fmt.Errorf("its only outputs are its own state")
	}
	if s.steps != nil {
		i := slices.IndexFunc(s.out.States, func(t State) bool { return t.Name == s.steps.Name })
		size := s.Op("", "Shape", []*ir.Value{s.input}, ir.A("start", s.flows[s.input].axis),
			ir.A("end", s.flows[s.input].axis+1))
		s.next[i] = s.Op("", "Add", []*ir.Value{s.steps, size})
	}
	for i, v := range s.next {
		if v == nil {
			return fmt.Errorf("state %s has no next value", s.out.States[i].Name)
		}
		outputs = append(outputs, s.named(s.out.States[i].Next, v, outputs, nil))
	}
	if err := s.Err(); err != nil {
		return err
	}
	g.Outputs = outputs
	if err := g.Sort(); err != nil {
		return err
	}
	g.RemoveDead()
	return s.dropInputs()
}

// named returns a value with the name that it needs as an output, besides the existing outputs. of, if not nil, is
// the output of the source that the value replaces.
func (s *stepper) named(name string, v *ir.Value, outputs []*ir.Value, of *ir.Value) *ir.Value {
	other := func(o *ir.Value) bool { return o != of && s.get(o) == v }
	if v.Def == nil || slices.Contains(outputs, v) || slices.ContainsFunc(s.Graph().Outputs, other) {
		if v = s.Op("", "Identity", []*ir.Value{v}); v == nil {
			return nil
		}
	}
	v.Name = name
	return v
}

// dropInputs removes the inputs for the model's own state, which nothing reads any more.
func (s *stepper) dropInputs() error {
	g := s.Graph()
	uses := g.Uses()
	for _, v := range s.given {
		if u := uses[v]; len(u) > 0 {
			what := "an output"
			if u[0].Node != nil {
				what = "node " + u[0].Node.String()
			}
			return fmt.Errorf("input %s: %s declares it as the layers' own state, but %s uses it otherwise", v.Name,
				ir.MetaState, what)
		}
	}
	g.Inputs = slices.DeleteFunc(g.Inputs, func(v *ir.Value) bool {
		_, optional := v.Type.(*ir.OptionalType)
		return (optional || slices.Contains(s.given, v)) && len(uses[v]) == 0 && v != s.end
	})
	return nil
}
