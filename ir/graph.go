// Package ir is the intermediate representation that all parts of essmc work on: a graph of typed values in static
// single assignment form. Subgraphs may capture values of the graphs around them. Constants are kept beside the
// nodes.
//
// It imports ir/tensor, ir/scalar and the standard library only, and depends on neither machines nor file formats.
// In a verified graph:
//
//   - every value is defined before it is used
//   - every value has a type, and a name that is unique among all values, including those of subgraphs
//   - a node has at least the inputs that its operator requires
//   - the types of a node's outputs are the ones that its operator infers
//
// Verify checks all of this.
package ir

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/essmc/essmc/ir/tensor"
)

// Graph is a function from its inputs to its outputs.
type Graph struct {
	Name    string
	Doc     string
	Inputs  []*Value
	Outputs []*Value
	Nodes   []*Node
	// Parameters are the values whose content may be replaced between runs (Value.Init). Nodes of g and of its
	// subgraphs read them. They are set on the outermost graph.
	Parameters []*Value
	// Updates are the parameters that a run gives new content, each at most once. They are set on the outermost graph.
	Updates []Update
	// Opsets maps each operator domain ("" is ai.onnx) to the version that the graph's operators are chosen from. It is
	// set on the outermost graph.
	Opsets map[string]int
	// Meta holds facts about the model as text: producer, source, class names, the time and batch symbols.
	Meta map[string]string
	// History lists the passes that changed the graph, oldest first.
	History []Event

	pace *Pacer // of its walks; nil: none
}

// Keys of Graph.Meta that essmc itself reads.
const (
	MetaTime   = "essmc.time"   // symbol of the time dimension, usually "L"
	MetaBatch  = "essmc.batch"  // symbol of the batch dimension, usually "B"
	MetaLabels = "essmc.labels" // class names, a JSON list
	MetaSource = "essmc.source" // name of the file that the model came from
	MetaRate   = "essmc.rate"   // factor of resampling on every step size, unless it is 1
	// MetaSamplingRate is the sampling rate of the training data in Hz. The input of a resampled model has that rate
	// divided by MetaRate.
	MetaSamplingRate = "essmc.sampling_rate"
	MetaState        = "essmc.state" // JSON object, input → output: they take and give the state of the layers
	MetaCarry        = "essmc.carry" // JSON object, input → output: the graph takes one chunk and the state before it
	// MetaOperators lists operators that an exported file has in smaller ones: a graph in IR text, whose inputs and
	// outputs are values of the file by their names.
	MetaOperators = "essmc.operators"
	// MetaSettings is about tensors of a checkpoint that belong to a model whose tensors are parameters, and are none
	// themselves: a JSON object from their names to the numbers that each must have (those of which the graph's
	// structure follows), or to the name of the tensor that it repeats.
	MetaSettings = "essmc.settings"
	// MetaKeys + the name of an input or output holds the keys of its columns, a JSON list of numbers or strings, where
	// the model's file has maps there. The list is empty if an input's columns are a map's values in the order of their
	// keys.
	MetaKeys = "essmc.keys."
)

// Event is one line of a graph's history.
type Event struct {
	Pass    string   // name of the pass
	Changes int      // number of rewrites
	Notes   []string // its actions with their reasons, and warnings ("warning: …")
}

// Update is a parameter and its new content, an output of the graph of the same type. A run that updates writes the
// output into the parameter after it has computed everything.
type Update struct{ Parameter, Output *Value }

// Value is an input of a graph, a constant, a parameter, or an output of a node.
type Value struct {
	Name string
	Type Type
	// Const is the content of a constant; nil for other values.
	Const *tensor.Tensor
	// Init is the content of a parameter until it is replaced; nil for other values. Nothing that is computed before a
	// run may depend on its elements.
	Init *tensor.Tensor
	// Def is the node that computes the value; nil for inputs, constants and parameters.
	Def *Node
}

// Node is one application of an operator.
type Node struct {
	Op *Op
	// Name is the node's name in the source model, for messages. It may be empty or repeated.
	Name string
	// Scope is the part of the model that the node belongs to, such as "layers.0". Passes keep it.
	Scope string
	// Inputs are in the operator's order; nil where an optional input is absent.
	Inputs []*Value
	// Outputs are in the operator's order; nil where an optional output is not wanted.
	Outputs []*Value
	Attrs   Attrs

	pace *Pacer // of its operator's functions; nil: none
}

// In returns input i, or nil when it is absent.
func (n *Node) In(i int) *Value {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return nil
}

// Out returns output i, or nil when it is absent.
func (n *Node) Out(i int) *Value {
	if i < len(n.Outputs) {
		return n.Outputs[i]
	}
	return nil
}

// String names the node for messages: `Mul "scale" (layers.0) -> y`.
func (n *Node) String() string {
	if n.Op == nil {
		return "without operator " + strconv.Quote(n.Name)
	}
	s := n.Op.FullName()
	if n.Name != "" {
		s += " " + strconv.Quote(n.Name)
	}
	if n.Scope != "" {
		s += " (" + n.Scope + ")"
	}
	for _, o := range n.Outputs {
		if o != nil {
			return s + " -> " + o.Name
		}
	}
	return s
}

// TensorType returns the value's type if it is a tensor or an optional tensor.
func (v *Value) TensorType() (*TensorType, bool) { return AsTensor(v.Type) }

// Shape returns the value's shape; nil when it is not a tensor of known rank.
func (v *Value) Shape() Shape {
	if t, ok := AsTensor(v.Type); ok && !t.NoRank {
		return t.Shape
	}
	return nil
}

// Elem returns the value's element type; Invalid when it is not a tensor.
func (v *Value) Elem() tensor.DType {
	if t, ok := AsTensor(v.Type); ok {
		return t.Elem
	}
	return tensor.Invalid
}

// NewConst makes a constant value.
func NewConst(name string, t *tensor.Tensor) *Value { return &Value{Name: name, Type: Of(t), Const: t} }

// NewParameter makes a parameter with the content t. The graph must list it in Parameters.
func NewParameter(name string, t *tensor.Tensor) *Value {
	return &Value{Name: name, Type: Of(t), Init: t}
}

// Parameter finds a parameter by name, or returns nil.
func (g *Graph) Parameter(name string) *Value {
	i := slices.IndexFunc(g.Parameters, func(v *Value) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return g.Parameters[i]
}

// Symbols lists the symbols of the dimensions of the graph's inputs, in the order in which they appear.
func (g *Graph) Symbols() []string {
	var out []string
	seen := map[string]bool{}
	for _, v := range g.Inputs {
		g.pace.Step(2)
		for _, d := range v.Shape() {
			for _, name := range d.Symbols() {
				if !seen[name] {
					seen[name] = true
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// Subgraphs lists the graphs in the node's attributes, in the order of the attributes.
func (n *Node) Subgraphs() []*Graph {
	var out []*Graph
	for _, a := range n.Attrs {
		switch v := a.Value.(type) {
		case *Graph:
			if v != nil {
				out = append(out, v)
			}
		case []*Graph:
			for _, s := range v {
				if s != nil {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// Walk visits every node of g and of the subgraphs within, outer before inner, in order.
func (g *Graph) Walk(visit func(g *Graph, n *Node) error) error {
	for _, n := range g.Nodes {
		g.pace.Step(1)
		if err := visit(g, n); err != nil {
			return err
		}
		for _, s := range n.Subgraphs() {
			if err := s.Walk(visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// Constants lists the constants that g and its subgraphs use, each once, in the order of first use.
func (g *Graph) Constants() []*Value {
	var out []*Value
	seen := map[*Value]bool{}
	p := g.pace
	add := func(v *Value) {
		if p.Step(2); v != nil && v.Const != nil && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	_ = g.Walk(func(_ *Graph, n *Node) error {
		for _, v := range n.Inputs {
			add(v)
		}
		return nil
	})
	g.eachGraph(func(g *Graph) {
		for _, v := range g.Outputs {
			add(v)
		}
	})
	return out
}

func (g *Graph) eachGraph(visit func(*Graph)) { g.eachGraphAt(g.pace, visit) }

func (g *Graph) eachGraphAt(p *Pacer, visit func(*Graph)) {
	visit(g)
	for _, n := range g.Nodes {
		p.Step(1)
		for _, s := range n.Subgraphs() {
			s.eachGraphAt(p, visit)
		}
	}
}

// Use is one place where a value is read: an input of Node, or an output of Graph if Node is nil.
type Use struct {
	Node  *Node
	Graph *Graph
	Index int
}

// Uses maps each value to the places that read it, subgraphs included.
func (g *Graph) Uses() map[*Value][]Use {
	reads := 0
	g.eachGraph(func(g *Graph) {
		reads += len(g.Outputs)
		for _, n := range g.Nodes {
			g.pace.Step(1)
			reads += len(n.Inputs)
		}
	})
	uses := make(map[*Value][]Use, hint(reads))
	var long map[*Value]int
	var room []Use // most values are read once: their lists are pieces of this
	p := g.pace
	add := func(v *Value, u Use) {
		if p.Step(1); v == nil {
			return
		}
		list, more := uses[v]
		if len(list) == 1<<12 { // growing a long list takes milliseconds
			if long == nil {
				long = g.longLists(len(list))
			}
			list = slices.Grow(list, long[v]-len(list))
		}
		if !more {
			if len(room) == 0 {
				room = make([]Use, min(reads, 1<<12))
			}
			list, room = room[:0:1], room[1:]
		}
		uses[v] = append(list, u)
		reads--
	}
	g.eachGraph(func(g *Graph) {
		for _, n := range g.Nodes {
			p.Step(4)
			for i, v := range n.Inputs {
				add(v, Use{n, g, i})
			}
		}
		for i, v := range g.Outputs {
			add(v, Use{nil, g, i})
		}
	})
	return uses
}

// longLists returns the numbers of reads of values that are read more than least times.
func (g *Graph) longLists(least int) map[*Value]int {
	reads := map[*Value]int{}
	p := g.pace
	g.eachRead(func(at **Value) {
		p.Step(1)
		reads[*at]++
	})
	for v, n := range reads {
		if p.Step(1); n <= least {
			delete(reads, v)
		}
	}
	return reads
}

// ReplaceUses makes every reader of old, in subgraphs too, read with instead.
func (g *Graph) ReplaceUses(old, with *Value) {
	g.eachRead(func(at **Value) {
		if *at == old {
			*at = with
		}
	})
}

// ReplaceAll is ReplaceUses for many values at once. The replacement of a value is not replaced itself.
func (g *Graph) ReplaceAll(with map[*Value]*Value) {
	g.eachRead(func(at **Value) {
		if v, ok := with[*at]; ok {
			*at = v
		}
	})
}

// eachRead visits the places that read values, subgraphs included.
func (g *Graph) eachRead(visit func(at **Value)) {
	p := g.pace
	g.eachGraph(func(g *Graph) {
		for _, n := range g.Nodes {
			p.Step(4)
			for i := range n.Inputs {
				p.Step(1)
				visit(&n.Inputs[i])
			}
		}
		for i := range g.Outputs {
			p.Step(1)
			visit(&g.Outputs[i])
		}
		for i := range g.Updates { // they are from outputs
			visit(&g.Updates[i].Output)
		}
	})
}

// ReplaceOutput makes another value output i of g, and of the updates that were from the one before.
func (g *Graph) ReplaceOutput(i int, with *Value) {
	old := g.Outputs[i]
	g.Outputs[i] = with
	if len(g.Updates) == 0 || slices.Contains(g.Outputs, old) {
		return
	}
	for k := range g.Updates {
		if g.Updates[k].Output == old {
			g.Updates[k].Output = with
		}
	}
}

// Captures lists the values that g reads from the graphs around it, without constants, in the order of first use.
// Parameters of these graphs are among them.
func (g *Graph) Captures() []*Value { return g.CapturesPaced(g.pace) }

// CapturesPaced is Captures, and counts its steps with p.
func (g *Graph) CapturesPaced(p *Pacer) []*Value {
	own := map[*Value]bool{}
	g.eachGraphAt(p, func(g *Graph) {
		for _, v := range g.Inputs {
			p.Step(tableSteps)
			own[v] = true
		}
		for _, v := range g.Parameters {
			own[v] = true
		}
		for _, n := range g.Nodes {
			for _, v := range n.Outputs {
				p.Step(tableSteps)
				own[v] = true
			}
		}
	})
	var out []*Value
	seen := map[*Value]bool{}
	add := func(v *Value) {
		if p.Step(2); v != nil && v.Const == nil && !own[v] && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	g.eachGraphAt(p, func(g *Graph) {
		for _, n := range g.Nodes {
			for _, v := range n.Inputs {
				add(v)
			}
		}
		for _, v := range g.Outputs {
			add(v)
		}
	})
	return out
}

// Sort puts the nodes into an order in which values are defined before they are used. It keeps the present order where
// it can, and fails when the nodes form a cycle.
func (g *Graph) Sort() error {
	index := make(map[*Node]int, hint(len(g.Nodes)))
	for i, n := range g.Nodes {
		g.pace.Step(1)
		index[n] = i
	}
	if g.sorted(index) {
		return nil
	}
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(g.Nodes))
	out := make([]*Node, 0, len(g.Nodes))
	type frame struct {
		n    *Node
		deps []*Value
	}
	deps := func(n *Node) []*Value {
		d := slices.Clone(n.Inputs)
		for _, s := range n.Subgraphs() {
			d = append(d, s.Captures()...)
		}
		return d
	}
	for _, root := range g.Nodes {
		if state[index[root]] != unseen {
			continue
		}
		state[index[root]] = open
		stack := []frame{{root, deps(root)}}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if len(f.deps) == 0 {
				state[index[f.n]] = done
				out = append(out, f.n)
				stack = stack[:len(stack)-1]
				continue
			}
			v := f.deps[0]
			f.deps = f.deps[1:]
			if g.pace.Step(1); v == nil || v.Def == nil {
				continue
			}
			i, here := index[v.Def]
			if !here || state[i] == done {
				continue
			}
			if state[i] == open {
				return fmt.Errorf("graph %s: node %v depends on itself", g.Name, v.Def)
			}
			state[i] = open
			stack = append(stack, frame{v.Def, deps(v.Def)})
		}
	}
	g.Nodes = out
	return nil
}

// sorted reports whether no node reads a value that is defined after it.
func (g *Graph) sorted(index map[*Node]int) bool {
	for i, n := range g.Nodes {
		g.pace.Step(4)
		behind := func(v *Value) bool {
			if g.pace.Step(1); v == nil || v.Def == nil {
				return false
			}
			j, here := index[v.Def]
			return here && j >= i
		}
		if slices.ContainsFunc(n.Inputs, behind) {
			return false
		}
		for _, s := range n.Subgraphs() {
			if slices.ContainsFunc(s.Captures(), behind) {
				return false
			}
		}
	}
	return true
}

// RemoveDead drops the nodes whose outputs are not read, in subgraphs too, and returns their number. The nodes may be
// in any order.
func (g *Graph) RemoveDead() int {
	alive := make(map[*Node]bool, hint(len(g.Nodes)))
	p := g.pace
	var todo []*Node // alive, with inputs that have not been looked at; chains are too long for recursion
	read := func(list []*Value) {
		for _, v := range list {
			if p.Step(1); v != nil && v.Def != nil && !alive[v.Def] {
				alive[v.Def] = true
				todo = append(todo, v.Def)
			}
		}
	}
	read(g.Outputs)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		read(n.Inputs)
		for _, s := range n.Subgraphs() {
			read(s.Outputs)
		}
	}
	removed := 0
	g.eachGraph(func(g *Graph) {
		before := len(g.Nodes)
		g.Nodes = slices.DeleteFunc(g.Nodes, func(n *Node) bool { p.Step(1); return !alive[n] })
		removed += before - len(g.Nodes)
	})
	return removed
}

// RemoveUnread drops dead nodes, as RemoveDead does, and the optional outputs of g's nodes that nothing reads. It
// returns the number of both.
func (g *Graph) RemoveUnread() int {
	removed := g.RemoveDead()
	uses := g.Uses()
	p := g.pace
	for _, n := range g.Nodes {
		if p.Step(1); len(n.Subgraphs()) > 0 {
			continue // they have an output for each of the node's
		}
		for i, v := range n.Outputs {
			if p.Step(1); i > 0 && v != nil && len(uses[v]) == 0 && n.Op.Out[min(i, len(n.Op.Out)-1)].Optional {
				n.Outputs[i] = nil
				removed++
			}
		}
		for len(n.Outputs) > 1 && n.Outputs[len(n.Outputs)-1] == nil {
			n.Outputs = n.Outputs[:len(n.Outputs)-1]
		}
	}
	return removed
}

// SelectOutputs leaves to g the outputs with these names, in g's order, what computes them, and the updates by them. An
// input that nothing reads then becomes optional, unless it is required. All parameters stay.
func (g *Graph) SelectOutputs(names []string, required func(in *Value) bool) {
	g.Outputs = slices.DeleteFunc(g.Outputs, func(v *Value) bool { return !slices.Contains(names, v.Name) })
	left := map[*Value]bool{}
	for _, v := range g.Outputs {
		left[v] = true
	}
	g.Updates = slices.DeleteFunc(g.Updates, func(u Update) bool { return !left[u.Output] })
	g.RemoveUnread()
	uses := g.Uses()
	for _, v := range g.Inputs {
		if _, optional := v.Type.(*OptionalType); !optional && len(uses[v]) == 0 && !required(v) {
			v.Type = &OptionalType{Elem: v.Type}
		}
	}
}

// Clone copies the graph, its nodes, values and subgraphs. Constants share their tensors.
func (g *Graph) Clone() *Graph { return g.clone(map[*Value]*Value{}, g.pace) }

func (g *Graph) clone(of map[*Value]*Value, p *Pacer) *Graph {
	c := &Graph{Name: g.Name, Doc: g.Doc, History: slices.Clone(g.History)}
	if g.Opsets != nil {
		c.Opsets = map[string]int{}
		for k, v := range g.Opsets {
			c.Opsets[k] = v
		}
	}
	if g.Meta != nil {
		c.Meta = map[string]string{}
		for k, v := range g.Meta {
			c.Meta[k] = v
		}
	}
	fresh := func(v *Value) *Value {
		if p.Step(4); v == nil {
			return nil
		}
		w := &Value{Name: v.Name, Type: v.Type, Const: v.Const, Init: v.Init}
		of[v] = w
		return w
	}
	read := func(v *Value) *Value {
		if p.Step(2); v == nil {
			return nil
		}
		if w, ok := of[v]; ok {
			return w
		}
		if v.Const != nil {
			return fresh(v)
		}
		return v // captured from a graph that is not being copied
	}
	for _, v := range g.Inputs {
		c.Inputs = append(c.Inputs, fresh(v))
	}
	for _, v := range g.Parameters {
		p.Step(1)
		c.Parameters = append(c.Parameters, fresh(v))
	}
	for _, n := range g.Nodes {
		p.Step(4)
		m := &Node{Op: n.Op, Name: n.Name, Scope: n.Scope, Attrs: slices.Clone(n.Attrs)}
		m.Inputs = slices.Grow(m.Inputs, len(n.Inputs))
		m.Outputs = slices.Grow(m.Outputs, len(n.Outputs))
		for _, v := range n.Inputs {
			m.Inputs = append(m.Inputs, read(v))
		}
		for i, a := range m.Attrs {
			switch s := a.Value.(type) {
			case *Graph:
				m.Attrs[i].Value = s.clone(of, p)
			case []*Graph:
				cs := make([]*Graph, len(s))
				for j := range s {
					cs[j] = s[j].clone(of, p)
				}
				m.Attrs[i].Value = cs
			}
		}
		for _, v := range n.Outputs {
			w := fresh(v)
			if w != nil {
				w.Def = m
			}
			m.Outputs = append(m.Outputs, w)
		}
		c.Nodes = append(c.Nodes, m)
	}
	for _, v := range g.Outputs {
		c.Outputs = append(c.Outputs, read(v))
	}
	for _, u := range g.Updates {
		c.Updates = append(c.Updates, Update{read(u.Parameter), read(u.Output)})
	}
	return c
}

// Input finds a graph input by name.
func (g *Graph) Input(name string) *Value {
	i := slices.IndexFunc(g.Inputs, func(v *Value) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return g.Inputs[i]
}
