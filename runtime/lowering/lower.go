package lowering

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// Support is a backend's answer for a step.
type Support int

const (
	// Expand: no implementation. The operator is replaced by its body, if it has one.
	Expand Support = iota
	// Evaluate: no implementation, and the body must not be used either. The step is evaluated as package ops defines
	// it.
	Evaluate
	// Implemented: an implementation, which may still not fit the bound shapes.
	Implemented
)

// Backend is the part of a backend that the lowering calls.
type Backend interface {
	// Name returns the name of the backend, for messages.
	Name() string
	// Implement looks for the backend's implementation of a step. Constant inputs are known; the shapes of others
	// may not be. It may set s.Impl, append inputs to s, and add steps before s by c.
	Implement(c *Compiler, s *Step) Support
}

// maxExpansion is the maximum depth of nested bodies.
const maxExpansion = 32

// Compiler builds a Program.
type Compiler struct {
	p      *Program
	vals   map[*ir.Value]*Value
	group  int
	groups int
	loops  int // the number of loops around the graph

	folding *folding
	pace    *ir.Pacer // of the nodes
}

// Lower returns a graph as a program for a backend. It folds constants, replaces Blocks and operators that the backend
// does not implement by their bodies, and makes programs of the subgraphs of If, Loop and Scan. It returns a
// *runtime.UnsupportedError for a node that cannot be computed, and the error of config.Ctx when that is done.
func Lower(g *ir.Graph, config runtime.Config, b Backend) (_ *Program, err error) {
	defer runtime.Ended(&err)
	ctx := config.Ctx
	config.Ctx = nil
	f := &Compiler{vals: map[*ir.Value]*Value{}, folding: newFolding(ctx, g)}
	f.pace = ir.NewPacer(f.folding.steps.Pause)
	defer f.pace.Stop() // the program keeps nodes
	g = widen(g, b, &f.folding.steps)
	p := &Program{Config: config, backend: b, Graph: g, nodes: newNodes(config), trial: &trial{}}
	f.p = p
	for _, v := range g.Inputs {
		p.Inputs = append(p.Inputs, f.value(v))
	}
	if err := f.parameters(g, config.Parameters); err != nil {
		return nil, err
	}
	nodes, of := groups(g, f.pace)
	f.groups = len(of)
	for _, n := range nodes {
		f.group = of[n]
		if err := f.node(n, n, 0); err != nil {
			return nil, err
		}
	}
	for _, v := range g.Outputs {
		p.Outputs = append(p.Outputs, f.value(v))
	}
	p.facts = p.along(&f.folding.steps)
	return p, nil
}

// Program returns the program under construction.
func (f *Compiler) Program() *Program { return f.p }

// Group returns the group of the steps that are added.
func (f *Compiler) Group() int { return f.group }

// value returns the Value for v, and makes it if it does not exist.
func (f *Compiler) value(v *ir.Value) *Value {
	if v == nil {
		return nil
	}
	if x, ok := f.vals[v]; ok {
		return x
	}
	f.folding.steps.Step(128)
	x := f.newValue(v.Name, v.Type, v.Const)
	f.vals[v] = x
	return x
}

func (f *Compiler) newValue(name string, t ir.Type, konst *tensor.Tensor) *Value {
	x := &Value{ID: len(f.p.Values), Name: name, Type: t, Const: konst}
	f.p.Values = append(f.p.Values, x)
	return x
}

// graph adds the nodes of g as steps. src is the node whose body they are; if it is nil, each node is its own
// source.
func (f *Compiler) graph(g *ir.Graph, src *ir.Node, depth int) error {
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

func (f *Compiler) node(n *ir.Node, src *ir.Node, depth int) error {
	f.folding.steps.Pause()
	n = n.Paced(f.pace)
	s := &Step{Source: src, Group: f.group, In: make([]*Value, 0, len(n.Inputs))}
	for _, v := range n.Inputs {
		n.Step(1)
		s.In = append(s.In, f.value(v))
	}
	if f.fold(n, s.In) {
		return nil
	}
	if n.Op.Domain == "essm" && n.Op.Name == "Block" {
		return f.block(n, s, depth)
	}
	n = f.withConstants(n, s.In)
	s.Node = n
	has := f.p.backend.Implement(f, s)
	if has == Implemented {
		if n.Op.Eval == nil { // in case the implementation does not fit the shapes
			if err := f.evaluated(n, src); err != nil {
				return err
			}
		}
		f.Add(s)
		return nil
	}
	if n.Op.Body != nil && (n.Op.Eval == nil || has == Expand) {
		done, err := f.expand(n, src, s.In, depth)
		if err != nil || done {
			return err
		}
	}
	if n.Op.Eval == nil {
		return f.unsupported(src, "operator %s has neither kernel nor Eval nor Body", n.Op.FullName())
	}
	if err := f.evaluated(n, src); err != nil {
		return err
	}
	for _, g := range n.Subgraphs() {
		for _, v := range g.CapturesPaced(f.pace) {
			s.Captures = append(s.Captures, Capture{v, f.value(v)})
		}
	}
	f.folding.steps.Pause()
	s.branches, s.body = f.branches(n), f.body(n)
	s.evaluated = s.branches == nil && s.body == nil
	f.Add(s)
	return nil
}

func (f *Compiler) unsupported(n *ir.Node, format string, args ...any) error {
	return &runtime.UnsupportedError{Backend: f.p.backend.Name(), Node: n, Why: fmt.Sprintf(format, args...)}
}

// Add adds a step, with the outputs of its node.
func (f *Compiler) Add(s *Step) {
	s.Out = make([]*Value, 0, len(s.Node.Outputs))
	for _, v := range s.Node.Outputs {
		s.Out = append(s.Out, f.value(v))
	}
	f.p.Steps = append(f.p.Steps, s)
}

// block adds the body of a Block.
func (f *Compiler) block(n *ir.Node, s *Step, depth int) error {
	if depth >= maxExpansion {
		return f.unsupported(s.Source, "blocks are nested deeper than %d", maxExpansion)
	}
	body := inTermsOf(s.In, n.Attrs.Graph("body"))
	for i, v := range body.Inputs {
		f.vals[v] = s.In[i]
	}
	for _, m := range body.Nodes { // a body that occurs twice in the graph has two sets of values
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

// inTermsOf returns a body whose values have the types that follow from given inputs, because the symbols in its own
// types may have another meaning outside.
func inTermsOf(in []*Value, body *ir.Graph) *ir.Graph {
	same := func(i int, v *ir.Value) bool { return in[i] == nil || ir.EqualTypes(in[i].Type, v.Type) }
	differs := false
	for i, v := range body.Inputs {
		differs = differs || !same(i, v)
	}
	if !differs {
		return body
	}
	body = body.Clone()
	for i, v := range body.Inputs {
		if !same(i, v) {
			v.Type = in[i].Type
		}
	}
	for _, n := range body.Nodes {
		if err := ir.InferNode(n); err != nil { // contradictory sizes are reported by the run
			for _, v := range n.Outputs {
				if v == nil {
					continue
				}
				if t, ok := v.TensorType(); ok {
					v.Type = &ir.TensorType{Elem: t.Elem, NoRank: true}
				}
			}
		}
	}
	return body
}

// withConstants returns n, or a copy whose folded inputs are constants.
func (f *Compiler) withConstants(n *ir.Node, in []*Value) *ir.Node {
	c := n
	for i, v := range in {
		if n.Step(1); v == nil || v.Const == nil || n.Inputs[i].Const != nil {
			continue
		}
		if c == n {
			d := *n
			d.Inputs = append([]*ir.Value(nil), n.Inputs...)
			c = &d
		}
		c.Inputs[i] = &ir.Value{Name: v.Name, Type: ir.Of(v.Const), Const: v.Const}
		f.vals[c.Inputs[i]] = v
	}
	return c
}

// fold computes a node whose inputs are all constant or settled, and reports whether it has done so. A node that returns
// an error, or exceeds the budget for constants, is left to the run.
func (f *Compiler) fold(n *ir.Node, in []*Value) (done bool) {
	if n.Op.Eval == nil || n.Op.Random || len(n.Subgraphs()) > 0 {
		return false
	}
	settled, ok := settles(in)
	if !ok {
		return false
	}
	settled = settled && !n.Op.OfShapes // it reads no element
	data := make([]tensor.Datum, len(in))
	for i, v := range in {
		if n.Step(1); v != nil {
			data[i] = v.Fixed()
		}
	}
	for _, v := range n.Outputs {
		if n.Step(1); v == nil {
			continue
		}
		t, ok := v.Type.(*ir.TensorType)
		if !ok || t.NoRank {
			return false
		}
		shape, ok := t.Shape.Known()
		if size, err := tensor.Size(shape); !ok || err != nil || size > ops.MaxFolded {
			return false
		}
	}
	m := f.withConstants(n, in)
	res, err := f.folding.evaluate(m, data)
	if err != nil || len(res) < len(n.Outputs) {
		return false
	}
	for i, v := range n.Outputs {
		if n.Step(1); v == nil {
			continue
		}
		if t, ok := res[i].(*tensor.Tensor); !ok || t == nil {
			return false
		}
	}
	out := make([]*Value, len(n.Outputs))
	for i, v := range n.Outputs {
		if n.Step(4); v == nil {
			continue
		}
		t := res[i].(*tensor.Tensor)
		if !settled {
			out[i] = f.newValue(v.Name, v.Type, t)
		} else {
			// The result may share the storage of an input, or be lazy.
			own := tensor.New(t.DType(), t.Shape()...)
			own.CopyParts(t, f.folding.steps.Pause)
			out[i] = f.newValue(v.Name, v.Type, nil)
			out[i].Settled = own
		}
		f.vals[v] = out[i]
	}
	if settled {
		f.again(m, in, out)
	}
	return true
}

var errBody = errors.New("the body has too few outputs")

// expand adds the body of n's operator. If the operator can be evaluated, and a step of its body would be evaluated
// too, expand adds nothing and returns false.
func (f *Compiler) expand(n *ir.Node, src *ir.Node, in []*Value, depth int) (done bool, err error) {
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
	steps, values, bodies := len(f.p.Steps), len(f.p.Values), len(f.p.bodies)
	for _, m := range nodes {
		if err := f.node(m, src, depth+1); err != nil {
			return false, err
		}
	}
	if n.Op.Eval != nil {
		for _, s := range f.p.Steps[steps:] {
			if f.pace.Step(1); s.evaluated {
				for v, x := range f.vals {
					if f.pace.Step(1); x.ID >= values {
						delete(f.vals, v)
					}
				}
				f.p.Steps, f.p.Values, f.p.bodies = f.p.Steps[:steps], f.p.Values[:values], f.p.bodies[:bodies]
				return false, nil
			}
		}
	}
	for i, v := range n.Outputs {
		if v != nil {
			f.vals[v] = f.value(out[i])
		}
	}
	f.p.bodies = append(f.p.bodies, &expanded{node: n, source: src, in: in})
	return true, nil
}

// Has reports whether v is a value of the program. It is false for values of a body that was dropped again.
func (p *Program) Has(v *Value) bool { return v.ID < len(p.Values) && p.Values[v.ID] == v }

// body returns the nodes and the outputs of the body of n's operator, on n's inputs.
func body(n *ir.Node) (nodes []*ir.Node, out []*ir.Value, err error) {
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			err = runtime.Recovered(nil, v)
		}
	}()
	b := ir.NewBuilder(n.Op.FullName(), ops.Default, ops.Opsets())
	b.PaceLike(n)
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
