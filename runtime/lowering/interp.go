package lowering

import (
	"context"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// interp evaluates nodes as ops defines them: those without a kernel, and all nodes of subgraphs. It is filled at compile
// time, and read only afterwards.
type interp struct {
	bodies map[*ir.Node]expansion
	seen   map[*ir.Graph]bool
}

type expansion struct {
	nodes []*ir.Node
	out   []*ir.Value
}

func newInterp() *interp { return &interp{map[*ir.Node]expansion{}, map[*ir.Graph]bool{}} }

// prepare makes the bodies of operators without Eval in g and its subgraphs.
func (t *interp) prepare(g *ir.Graph, depth int) error {
	if t.seen[g] {
		return nil
	}
	t.seen[g] = true
	return t.nodes(g.Nodes, depth)
}

func (t *interp) nodes(nodes []*ir.Node, depth int) error {
	for _, n := range nodes {
		for _, g := range n.Subgraphs() {
			if err := t.prepare(g, depth); err != nil {
				return err
			}
		}
		if n.Op.Eval != nil {
			continue
		}
		if depth >= maxExpansion {
			return fmt.Errorf("the bodies of operators are nested deeper than %d", maxExpansion)
		}
		nodes, out, err := body(n)
		if err != nil {
			return fmt.Errorf("body of operator %s: %w", n.Op.FullName(), err)
		}
		t.bodies[n] = expansion{nodes, out}
		if err := t.nodes(nodes, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// scope holds the values of one evaluation of a graph; those of the graphs around it are found outside.
type scope struct {
	vals  map[*ir.Value]tensor.Datum
	outer *scope
}

func (s *scope) get(v *ir.Value) (tensor.Datum, error) {
	if v.Const != nil {
		return v.Const, nil
	}
	for ; s != nil; s = s.outer {
		if d, ok := s.vals[v]; ok {
			return Present(d), nil
		}
	}
	return nil, fmt.Errorf("value %s has not been computed", v.Name)
}

// Eval evaluates one node on data.
func (t *interp) eval(ctx context.Context, kernel string, n *ir.Node, in []tensor.Datum, outer *scope) ([]tensor.Datum, error) {
	if b, ok := t.bodies[n]; ok {
		s := &scope{map[*ir.Value]tensor.Datum{}, outer}
		for i, v := range n.Inputs {
			if v != nil {
				s.vals[v] = in[i]
			}
		}
		if err := t.run(ctx, kernel, b.nodes, s); err != nil {
			return nil, err
		}
		res := make([]tensor.Datum, len(n.Outputs))
		for i, v := range n.Outputs {
			if v == nil {
				continue
			}
			d, err := s.get(b.out[i])
			if err != nil {
				return nil, err
			}
			res[i] = d
		}
		return res, nil
	}
	res, err := n.Op.Eval(&ir.EvalCtx{Node: n, Ctx: ctx, Kernel: kernel, Call: func(g *ir.Graph, in []tensor.Datum) ([]tensor.Datum, error) {
		if !t.seen[g] || len(in) != len(g.Inputs) {
			return nil, fmt.Errorf("graph %s is no subgraph of the node, or takes other than %d inputs", g.Name, len(in))
		}
		if err := ctx.Err(); err != nil { // a loop around an empty graph must stop, too
			return nil, err
		}
		s := &scope{map[*ir.Value]tensor.Datum{}, outer}
		for i, v := range g.Inputs {
			s.vals[v] = in[i]
		}
		if err := t.run(ctx, kernel, g.Nodes, s); err != nil {
			return nil, err
		}
		out := make([]tensor.Datum, len(g.Outputs))
		for i, v := range g.Outputs {
			d, err := s.get(v)
			if err != nil {
				return nil, fmt.Errorf("graph %s: %w", g.Name, err)
			}
			out[i] = d
		}
		return out, nil
	}}, in)
	if err != nil {
		return nil, err
	}
	for i, v := range n.Outputs {
		if v != nil && i >= len(res) {
			return nil, fmt.Errorf("operator gave %d results, output %d (%s) is wanted", len(res), i, v.Name)
		}
	}
	return res, nil
}

// run evaluates nodes in order.
func (t *interp) run(ctx context.Context, kernel string, nodes []*ir.Node, s *scope) error {
	for _, n := range nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.step(ctx, kernel, n, s); err != nil {
			return err
		}
	}
	return nil
}

func (t *interp) step(ctx context.Context, kernel string, n *ir.Node, s *scope) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = runtime.Recovered(n, v)
		}
	}()
	in := make([]tensor.Datum, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if in[i], err = s.get(v); err != nil {
			return &runtime.NodeError{Node: n, Err: err}
		}
	}
	res, err := t.eval(ctx, kernel, n, in, s)
	if err != nil {
		return &runtime.NodeError{Node: n, Err: err}
	}
	for i, v := range n.Outputs {
		if v != nil {
			s.vals[v] = res[i]
		}
	}
	return nil
}

// Present sees through optionals: what is inside, or nil.
func Present(d tensor.Datum) tensor.Datum {
	for {
		o, ok := d.(*tensor.Optional)
		if !ok {
			return d
		}
		if o == nil {
			return nil
		}
		d = o.Value
	}
}

// Evaluate computes a step as ops defines it, from its inputs and the values that its subgraphs capture (Step.Args, Step.Captures;
// nil where absent). It gives one result per output of the node.
func (p *Program) Evaluate(ctx context.Context, s *Step, in, captured []tensor.Datum) ([]tensor.Datum, error) {
	var outer *scope
	if len(captured) > 0 {
		outer = &scope{vals: map[*ir.Value]tensor.Datum{}}
		for i, c := range s.Captures {
			outer.vals[c.Inner] = captured[i]
		}
	}
	return p.interp.eval(ctx, p.Config.Kernel, s.Node, in, outer)
}
