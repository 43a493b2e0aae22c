package cpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// lprogram is a graph as a flat list of steps, in the order in which they run.
type lprogram struct {
	config  runtime.Config
	backend lbackend
	time    []ir.Fact // per value: how it lies along time; nil where the graph does not say
	graph   *ir.Graph
	values  []*value
	steps   []*step
	inputs  []*value
	outputs []*value
	interp  *interp
}

// value is something that steps read and write. Aliases (the input of a Block's body, the output of an operator whose body was
// written out) are one value.
type value struct {
	id    int // its place in Program.Values
	name  string
	typ   ir.Type
	konst *tensor.Tensor // its content, where that is constant
}

// step is the application of one operator.
type step struct {
	node      *ir.Node // what is evaluated; its constants may have been computed here
	src       *ir.Node // the node of the graph that it is, or is part of: what messages name
	in, out   []*value // nil where absent
	captures  []capture
	group     int         // steps of different groups (Blocks) do not share a region
	branches  *[2]*branch // of If: else and then
	body      *loopBody   // of Loop and Scan
	alone     ir.Fact     // of the first output along time, were it not for the steps before
	evaluated bool        // the backend has no implementation: it is evaluated as ops defines it
	impl      any         // what the backend keeps of the step
}

// capture is a value of the main graph that a subgraph of the step reads.
type capture struct {
	ir  *ir.Value
	val *value
}

// args are the inputs of the step's node; what is beyond them are other forms of these, for backends.
func (s *step) args() []*value { return s.in[:len(s.node.Inputs)] }

// support is what a backend has for a step.
type support int

const (
	// expand: nothing; the body of the operator is written out where it has one, and the steps of that run by themselves.
	expand support = iota
	// evaluate: nothing, and the body would not do either: the step is evaluated as ops defines it.
	evaluate
	// implemented: an implementation, which may still turn out not to fit the shapes that are bound.
	implemented
)

// lbackend is what the lowering asks a backend.
type lbackend interface {
	// Name is that of the backend, for messages.
	Name() string
	// Implement looks for the backend's implementation of a step. Constants among its inputs are known, other shapes may not be.
	// It may keep what it likes in the step, and append steps before it, and inputs to it, by way of c.
	Implement(c *compiler, s *step) support
}

// maxExpansion bounds how deep operators may be written in terms of each other; maxFold the elements of a result that is
// computed at compile time.
const (
	maxExpansion = 32
	maxFold      = 1 << 25
)

// compiler is a program that grows.
type compiler struct {
	p      *lprogram
	vals   map[*ir.Value]*value
	group  int
	groups int
	loops  int // how many loops are around the graph
}

// lowerGraph writes a graph out as steps: constants are folded, Blocks and operators that the backend does not implement are replaced
// by their bodies, subgraphs of If, Loop and Scan become programs of their own.
func lowerGraph(g *ir.Graph, config runtime.Config, b lbackend) (*lprogram, error) {
	p := &lprogram{config: config, backend: b, graph: g, interp: newInterp()}
	f := &compiler{p: p, vals: map[*ir.Value]*value{}}
	for _, v := range g.Inputs {
		p.inputs = append(p.inputs, f.value(v))
	}
	if err := f.graph(g, nil, 0); err != nil {
		return nil, err
	}
	for _, v := range g.Outputs {
		p.outputs = append(p.outputs, f.value(v))
	}
	p.time = p.along()
	return p, nil
}

// program gives the program that grows.
func (f *compiler) program() *lprogram { return f.p }

// inGroup gives the group of the steps that are being added.
func (f *compiler) inGroup() int { return f.group }

// value finds the value that stands for v here, or makes one.
func (f *compiler) value(v *ir.Value) *value {
	if v == nil {
		return nil
	}
	if x, ok := f.vals[v]; ok {
		return x
	}
	x := f.newValue(v.Name, v.Type, v.Const)
	f.vals[v] = x
	return x
}

func (f *compiler) newValue(name string, t ir.Type, konst *tensor.Tensor) *value {
	x := &value{id: len(f.p.values), name: name, typ: t, konst: konst}
	f.p.values = append(f.p.values, x)
	return x
}

// graph appends the nodes of g; src is the node that they are part of, or nil where they stand for themselves.
func (f *compiler) graph(g *ir.Graph, src *ir.Node, depth int) error {
	for _, n := range g.Nodes {
		s := src
		if s == nil {
			s = n
		}
		if err := f.node(n, s, depth); err != nil {
			return err
		}
	}
	return nil
}

func (f *compiler) node(n *ir.Node, src *ir.Node, depth int) error {
	s := &step{src: src, group: f.group}
	for _, v := range n.Inputs {
		s.in = append(s.in, f.value(v))
	}
	if f.fold(n, s.in) {
		return nil
	}
	if n.Op.Domain == "essm" && n.Op.Name == "Block" {
		return f.block(n, s, depth)
	}
	n = f.withConstants(n, s.in)
	s.node = n
	has := f.p.backend.Implement(f, s)
	if has == implemented {
		if n.Op.Eval == nil { // should the implementation not fit what is bound
			if err := f.p.interp.nodes([]*ir.Node{n}, depth); err != nil {
				return f.unsupported(src, "%v", err)
			}
		}
		f.add(s)
		return nil
	}
	if n.Op.Body != nil && (n.Op.Eval == nil || has == expand) {
		done, err := f.expand(n, src, depth)
		if err != nil || done {
			return err
		}
	}
	if n.Op.Eval == nil {
		return f.unsupported(src, "operator %s has neither kernel nor Eval nor Body", n.Op.FullName())
	}
	for _, g := range n.Subgraphs() {
		if err := f.p.interp.prepare(g, 0); err != nil {
			return f.unsupported(src, "%v", err)
		}
		for _, v := range g.Captures() {
			s.captures = append(s.captures, capture{v, f.value(v)})
		}
	}
	s.branches, s.body = f.branches(n), f.body(n)
	s.evaluated = s.branches == nil && s.body == nil
	f.add(s)
	return nil
}

func (f *compiler) unsupported(n *ir.Node, format string, args ...any) error {
	return &runtime.UnsupportedError{Backend: f.p.backend.Name(), Node: n, Why: fmt.Sprintf(format, args...)}
}

// add appends a step with the outputs of its node.
func (f *compiler) add(s *step) {
	for _, v := range s.node.Outputs {
		s.out = append(s.out, f.value(v))
	}
	f.p.steps = append(f.p.steps, s)
}

// block appends the body of a Block in its place.
func (f *compiler) block(n *ir.Node, s *step, depth int) error {
	if depth >= maxExpansion {
		return f.unsupported(s.src, "blocks are nested deeper than %d", maxExpansion)
	}
	body := n.Attrs.Graph("body")
	for i, v := range body.Inputs {
		f.vals[v] = s.in[i]
	}
	for _, m := range body.Nodes { // a body that stands in the graph twice is two sets of values
		for _, v := range m.Outputs {
			delete(f.vals, v)
		}
	}
	outer := f.group
	f.groups++
	f.group = f.groups
	err := f.graph(body, nil, depth+1)
	f.group = outer
	for i, v := range n.Outputs {
		if v != nil {
			f.vals[v] = f.value(body.Outputs[i])
		}
	}
	return err
}

// withConstants gives n, or a copy that reads those inputs as constants which were computed here.
func (f *compiler) withConstants(n *ir.Node, in []*value) *ir.Node {
	c := n
	for i, v := range in {
		if v == nil || v.konst == nil || n.Inputs[i].Const != nil {
			continue
		}
		if c == n {
			d := *n
			d.Inputs = append([]*ir.Value(nil), n.Inputs...)
			c = &d
		}
		c.Inputs[i] = &ir.Value{Name: v.name, Type: ir.Of(v.konst), Const: v.konst}
		f.vals[c.Inputs[i]] = v
	}
	return c
}

// fold computes a node whose inputs are all constants. A node that fails is left to fail when it is run.
func (f *compiler) fold(n *ir.Node, in []*value) (done bool) {
	if n.Op.Eval == nil || n.Op.Random || len(n.Subgraphs()) > 0 {
		return false
	}
	data := make([]tensor.Datum, len(in))
	for i, v := range in {
		if v == nil {
			continue
		}
		if v.konst == nil {
			return false
		}
		data[i] = v.konst
	}
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		t, ok := v.Type.(*ir.TensorType)
		if !ok || t.NoRank {
			return false
		}
		shape, ok := t.Shape.Known()
		if size, err := tensor.Size(shape); !ok || err != nil || size > maxFold {
			return false
		}
	}
	defer func() {
		if recover() != nil {
			done = false
		}
	}()
	res, err := n.Op.Eval(&ir.EvalCtx{Node: f.withConstants(n, in), Ctx: context.Background()}, data)
	if err != nil || len(res) < len(n.Outputs) {
		return false
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if t, ok := res[i].(*tensor.Tensor); !ok || t == nil {
			return false
		}
	}
	for i, v := range n.Outputs {
		if v != nil {
			f.vals[v] = f.newValue(v.Name, v.Type, res[i].(*tensor.Tensor))
		}
	}
	return true
}

var errBody = errors.New("body gives too few outputs")

// expand appends the body of n's operator. It leaves no trace, and says so, when the operator can be evaluated in one piece
// and its body cannot do without evaluation either.
func (f *compiler) expand(n *ir.Node, src *ir.Node, depth int) (done bool, err error) {
	if depth >= maxExpansion {
		return false, f.unsupported(src, "the bodies of operators are nested deeper than %d", maxExpansion)
	}
	nodes, out, err := body(n)
	if err != nil {
		if n.Op.Eval != nil {
			return false, nil
		}
		return false, f.unsupported(src, "body of operator %s: %v", n.Op.FullName(), err)
	}
	steps, values := len(f.p.steps), len(f.p.values)
	for _, m := range nodes {
		if err := f.node(m, src, depth+1); err != nil {
			return false, err
		}
	}
	if n.Op.Eval != nil {
		for _, s := range f.p.steps[steps:] {
			if s.evaluated {
				for v, x := range f.vals {
					if x.id >= values {
						delete(f.vals, v)
					}
				}
				f.p.steps, f.p.values = f.p.steps[:steps], f.p.values[:values]
				return false, nil
			}
		}
	}
	for i, v := range n.Outputs {
		if v != nil {
			f.vals[v] = f.value(out[i])
		}
	}
	return true, nil
}

// has reports whether v is a value of the program: it is not where it belonged to a body that was not written out after all.
func (p *lprogram) has(v *value) bool { return v.id < len(p.values) && p.values[v.id] == v }

// body builds the nodes that an operator is written as. They read n's own inputs.
func body(n *ir.Node) (nodes []*ir.Node, out []*ir.Value, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = runtime.Recovered(nil, v)
		}
	}()
	b := ir.NewBuilder(n.Op.FullName(), ops.Default, ops.Opsets())
	out = n.Op.Body(b, n, n.Inputs)
	if err := b.Err(); err != nil {
		return nil, nil, err
	}
	for i, v := range n.Outputs {
		if v != nil && (i >= len(out) || out[i] == nil) {
			return nil, nil, errBody
		}
	}
	return b.Graph().Nodes, out, nil
}
