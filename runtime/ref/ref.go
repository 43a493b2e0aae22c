// Package ref is the reference backend, which defines the meaning of a graph. It evaluates the nodes in the graph's order,
// on one goroutine, by their operators' Eval, or else by their Body. All other backends and all passes are tested against
// it.
//
// It imports ir, ops and runtime. A program chooses the operators by importing the packages that define them (ops/std,
// ops/essm). The only optimization is to free values after their last use. Every result is compared with its type in the
// graph, so an operator whose Eval contradicts its Infer is reported, with the node, and so is one that panics. With
// runtime.Config.Wide nothing is rounded to float32.
package ref

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// New returns the backend with the registered operators.
func New() runtime.Backend { return backend{ops.Default} }

// With returns the backend with the operators of r.
func With(r ir.Resolver) runtime.Backend { return backend{r} }

type backend struct{ resolver ir.Resolver }

func (backend) Name() string              { return "ref" }
func (b backend) Resolver() ir.Resolver   { return b.resolver }
func (p *program) Close() error           { return nil }
func (e *executable) Close() error        { return nil }
func (e *executable) ArenaBytes() int64   { return 0 } // it holds no memory between runs
func (e *executable) Profile() []stepTime { return e.times }

// Explain returns nothing: operators with several forms choose in their Eval.
func (p *program) Explain(runtime.Binding) ([]runtime.Choice, error) { return nil, nil }

type stepTime = runtime.StepTime

// maxExpansion bounds the nesting of bodies.
const maxExpansion = 32

// Compile prepares every node of the graph and its subgraphs.
func (b backend) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	if p := c.Products; p != tensor.Invalid && p != tensor.Float32 {
		return nil, &runtime.OptionError{Option: "Precision", Msg: fmt.Sprintf("the ref backend computes in float32 or float64; the cpu backend offers products in %v", p)}
	}
	p := &program{config: c, codes: map[*ir.Graph]*code{}, consts: map[*ir.Value]tensor.Datum{}}
	if _, err := p.prepare(b.resolver, g, 0); err != nil {
		return nil, err
	}
	p.main = g
	return p, nil
}

type program struct {
	config runtime.Config
	main   *ir.Graph
	codes  map[*ir.Graph]*code // of the main graph, its subgraphs, and the bodies of operators
	consts map[*ir.Value]tensor.Datum
}

// code is a graph that is prepared for evaluation.
type code struct {
	graph *ir.Graph
	steps []step
	inner bool // the symbols of a subgraph's types need not be those of the main graph
	body  bool // it replaces a node of the graph outside; Observe does not see its values
}

type step struct {
	node *ir.Node
	body *ir.Graph   // in place of an Eval
	in   []int       // inputs of node that body takes
	free []*ir.Value // of the same graph, read here for the last time
}

// prepare makes the code of g, its subgraphs, and the bodies of operators without Eval.
func (p *program) prepare(r ir.Resolver, g *ir.Graph, depth int) (*code, error) {
	if c, ok := p.codes[g]; ok {
		return c, nil
	}
	c := &code{graph: g, steps: make([]step, len(g.Nodes))}
	p.codes[g] = c
	for i, n := range g.Nodes {
		c.steps[i].node = n
		for _, v := range n.Inputs {
			p.constant(v)
		}
		for _, s := range n.Subgraphs() {
			sub, err := p.prepare(r, s, depth)
			if err != nil {
				return nil, err
			}
			sub.inner = true
		}
		if n.Op.Eval != nil {
			continue
		}
		unsupported := func(format string, args ...any) error {
			return &runtime.UnsupportedError{Backend: "ref", Node: n, Why: fmt.Sprintf(format, args...)}
		}
		if n.Op.Body == nil {
			return nil, unsupported("operator %s has neither Eval nor Body", n.Op.FullName())
		}
		if depth >= maxExpansion {
			return nil, unsupported("the bodies of operators are nested deeper than %d", maxExpansion)
		}
		body, in, err := expand(r, n)
		if err != nil {
			return nil, unsupported("body of operator %s: %v", n.Op.FullName(), err)
		}
		sub, err := p.prepare(r, body, depth+1)
		if err != nil {
			return nil, err
		}
		sub.body = true
		c.steps[i].body, c.steps[i].in = body, in
	}
	for _, v := range g.Outputs {
		p.constant(v)
	}
	c.lifetimes()
	return c, nil
}

// constant stores a constant as evaluations read it.
func (p *program) constant(v *ir.Value) {
	if v == nil || v.Const == nil || p.consts[v] != nil {
		return
	}
	p.consts[v] = v.Const
	if p.config.Wide {
		p.consts[v] = widen(v.Const)
	}
}

// lifetimes finds the last reader of every value that c's graph defines. A node reads the values that its subgraphs read.
func (c *code) lifetimes() {
	keep := map[*ir.Value]bool{}
	for _, v := range c.graph.Outputs {
		keep[v] = true
	}
	seen := map[*ir.Value]bool{}
	mine := map[*ir.Value]bool{}
	for _, v := range c.graph.Inputs {
		mine[v] = true
	}
	for _, n := range c.graph.Nodes {
		for _, v := range n.Outputs {
			mine[v] = true
		}
	}
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := &c.steps[i]
		last := func(vals []*ir.Value) {
			for _, v := range vals {
				if v != nil && mine[v] && !keep[v] && !seen[v] {
					seen[v] = true
					s.free = append(s.free, v)
				}
			}
		}
		last(s.node.Outputs) // unused outputs
		last(s.node.Inputs)
		for _, g := range s.node.Subgraphs() {
			last(g.Captures())
		}
		if s.body != nil {
			last(s.body.Captures())
		}
	}
}

// expand builds the body of n as a graph. Its inputs are the inputs of n that are not constants; idx holds their indices.
func expand(r ir.Resolver, n *ir.Node) (g *ir.Graph, idx []int, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = runtime.Recovered(nil, v)
		}
	}()
	// Bodies use the operator versions of graphs that this program makes, not those of the graph around them.
	b := ir.NewBuilder(n.Op.FullName(), r, ops.Opsets())
	in := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs { // inputs first, since a constant can take another name
		if v != nil && v.Const == nil {
			in[i] = b.Input(fmt.Sprintf("input%d", i), v.Type)
			idx = append(idx, i)
		}
	}
	for i, v := range n.Inputs {
		if v != nil && v.Const != nil {
			in[i] = b.Const(v.Name, v.Const)
		}
	}
	out := n.Op.Body(b, n, in)
	if err := b.Err(); err != nil {
		return nil, nil, err
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(out) || out[i] == nil {
			return nil, nil, fmt.Errorf("gives no output %d", i)
		}
		b.Output("", out[i])
	}
	return b.Graph(), idx, b.Err()
}

// Bind needs no plan.
func (p *program) Bind(b runtime.Binding) (runtime.Executable, error) {
	e := &executable{p: p, dims: b.Dims}
	if p.config.Profile {
		for _, s := range p.codes[p.main].steps {
			e.times = append(e.times, stepTime{Name: s.node.String(), Op: s.node.Op.FullName(), Form: "eval"})
		}
	}
	return e, nil
}
