package eval

import (
	"context"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Options steer evaluations. The zero value is right for most.
type Options struct {
	Resolver ir.Resolver // of the operators in bodies; nil: ops.Default
	Wide     bool        // float32 is carried as float64
	Kernel   string      // the form that operators with several are asked for; empty: theirs to choose
	// Bounded evaluations spend the work of each node (ops.WorkOf) from their budget.
	Bounded bool
	// Failed returns the error of a node, for an error or the value of a panic; nil: the error that package eval gives
	// it.
	Failed func(n *ir.Node, err error, panicked any) error
}

// Watch follows an evaluation. Place is the current position; the data that methods get are valid while the
// evaluation keeps them. An error ends the evaluation.
type Watch interface {
	// Before is called before a node is evaluated, After with the data of the outputs that it has, Done when those that
	// it read for the last time are dropped.
	Before(p Place) error
	After(p Place, out []tensor.Datum) error
	Done(p Place) error
}

// Place is a node of a graph.
type Place struct {
	Graph *ir.Graph
	Node  *ir.Node
	Index int // of the node in the graph
	// Inner means that the graph is a subgraph, whose symbols may differ from those of the graph around it; Body
	// means that it is the body of an operator, or within one.
	Inner, Body bool
}

// MaxNesting bounds the nesting of bodies.
const MaxNesting = 32

// UnsupportedError is the reason why a node cannot be evaluated.
type UnsupportedError struct {
	Node *ir.Node
	Why  string
}

// Error names the node.
func (e *UnsupportedError) Error() string { return fmt.Sprintf("node %v: %s", e.Node, e.Why) }

// Program holds graphs that are prepared for evaluation. Once they are added it may be used concurrently.
type Program struct {
	options Options
	codes   map[*ir.Graph]*code // of graphs, their subgraphs, and bodies
	alone   map[*ir.Node]*step  // nodes that were added by themselves
	pace    *ir.Pacer           // while a node is added
	wide    map[*ir.Value]tensor.Datum
}

// code is a prepared graph.
type code struct {
	graph       *ir.Graph
	steps       []step
	inner, body bool
}

// step is a prepared node.
type step struct {
	node *ir.Node
	body *code       // in place of an Eval
	args []int       // inputs of the node that the body takes
	free []*ir.Value // of the same graph, read here for the last time
}

// New returns a program without graphs.
func New(o Options) *Program {
	if o.Resolver == nil {
		o.Resolver = ops.Default
	}
	return &Program{options: o, codes: map[*ir.Graph]*code{}, alone: map[*ir.Node]*step{},
		wide: map[*ir.Value]tensor.Datum{}}
}

// Add prepares a graph, with its subgraphs and the bodies of operators without Eval. An error is an *UnsupportedError.
func (p *Program) Add(g *ir.Graph) error {
	_, err := p.graph(g, 0)
	return err
}

// AddNode prepares a node whose inputs, and whatever its subgraphs capture, will be given with each evaluation. An
// error is an *UnsupportedError.
func (p *Program) AddNode(n *ir.Node) error {
	if p.alone[n] != nil {
		return nil
	}
	p.pace = n.Pace()
	s, err := p.step(n, 0)
	p.pace = nil
	p.alone[n] = s
	return err
}

func (p *Program) graph(g *ir.Graph, depth int) (*code, error) {
	if c, ok := p.codes[g]; ok {
		return c, nil
	}
	c := &code{graph: g, steps: make([]step, len(g.Nodes)), body: depth > 0}
	p.codes[g] = c
	for i, n := range g.Nodes {
		p.pace.Step(2)
		s, err := p.step(n, depth)
		if err != nil {
			return nil, err
		}
		c.steps[i] = *s
	}
	for _, v := range g.Outputs {
		p.constant(v)
	}
	c.lifetimes(p.pace)
	return c, nil
}

func (p *Program) step(n *ir.Node, depth int) (*step, error) {
	s := &step{node: n}
	for _, v := range n.Inputs {
		p.pace.Step(1)
		p.constant(v)
	}
	for _, g := range n.Subgraphs() {
		c, err := p.graph(g, depth)
		if err != nil {
			return nil, err
		}
		c.inner = true
	}
	if n.Op.Eval != nil {
		return s, nil
	}
	if n.Op.Body == nil {
		return nil, &UnsupportedError{n, fmt.Sprintf("operator %s has neither Eval nor Body", n.Op.FullName())}
	}
	if depth >= MaxNesting {
		return nil, &UnsupportedError{n, fmt.Sprintf("the bodies of operators are nested deeper than %d", MaxNesting)}
	}
	g, args, err := expand(p.options.Resolver, n)
	if err != nil {
		return nil, &UnsupportedError{n, fmt.Sprintf("body of operator %s: %v", n.Op.FullName(), err)}
	}
	s.args = args
	s.body, err = p.graph(g, depth+1)
	return s, err
}

// constant stores a constant as evaluations read it.
func (p *Program) constant(v *ir.Value) {
	if p.options.Wide && v != nil && v.Const != nil && p.wide[v] == nil {
		p.wide[v] = Widen(v.Const)
	}
}

// lifetimes finds the last reader of every value that c's graph defines. A node reads the values that its subgraphs
// read.
func (c *code) lifetimes(pace *ir.Pacer) {
	mine := map[*ir.Value]bool{} // not read yet, from the end on
	for _, v := range c.graph.Inputs {
		pace.Step(4)
		mine[v] = true
	}
	for _, n := range c.graph.Nodes {
		for _, v := range n.Outputs {
			pace.Step(4)
			mine[v] = true
		}
	}
	delete(mine, nil)
	for _, v := range c.graph.Outputs {
		delete(mine, v)
	}
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := &c.steps[i]
		last := func(vals []*ir.Value) {
			for _, v := range vals {
				if pace.Step(2); mine[v] {
					delete(mine, v)
					s.free = append(s.free, v)
				}
			}
		}
		last(s.node.Outputs) // unused outputs
		last(s.node.Inputs)
		for _, g := range s.node.Subgraphs() {
			last(g.CapturesPaced(pace))
		}
		if s.body != nil {
			last(s.body.graph.CapturesPaced(pace))
		}
	}
}

// Frame has the values of one evaluation of a graph. Outer has the values of the graph around it.
type Frame struct {
	Values map[*ir.Value]tensor.Datum
	Outer  *Frame
}

func (f *Frame) get(v *ir.Value) (tensor.Datum, bool) {
	for ; f != nil; f = f.Outer {
		if d, ok := f.Values[v]; ok {
			return d, true
		}
	}
	return nil, false
}

// Graph evaluates a graph that was added. outer holds the values that it captures, w, if not nil, follows. All values
// that are alive are charged to the budget, as if none shared storage; the results are not when Graph returns.
func (p *Program) Graph(ctx context.Context, g *ir.Graph, in []tensor.Datum, outer *Frame, b *ir.Budget,
	w Watch) ([]tensor.Datum, error) {
	r := &run{Program: p, ctx: ctx, budget: b, watch: w}
	return r.graph(p.codes[g], in, outer)
}

// Node evaluates a node that was added; one with an Eval and without subgraphs need not be. outer holds the values that
// its subgraphs capture. The evaluation is charged to the budget; the results are not when Node returns. The error does
// not name the node.
func (p *Program) Node(ctx context.Context, n *ir.Node, in []tensor.Datum, outer *Frame,
	b *ir.Budget) ([]tensor.Datum, error) {
	s := p.alone[n]
	if s == nil {
		s = &step{node: n}
	}
	r := &run{Program: p, ctx: ctx, budget: b}
	return r.compute(s, in, outer)
}

// run is one evaluation.
type run struct {
	*Program
	ctx    context.Context
	budget *ir.Budget
	watch  Watch
	pace   *ir.Pacer
}

func (r *run) graph(c *code, in []tensor.Datum, outer *Frame) ([]tensor.Datum, error) {
	if err := r.ctx.Err(); err != nil { // a loop around an empty graph must stop too
		return nil, err
	}
	if len(in) != len(c.graph.Inputs) {
		return nil, fmt.Errorf("graph %s takes %d inputs, found %d", c.graph.Name, len(c.graph.Inputs), len(in))
	}
	f := &Frame{make(map[*ir.Value]tensor.Datum, len(c.steps)), outer}
	h := &held{budget: r.budget, steps: ir.EvalCtx{Ctx: r.ctx}}
	defer h.end()
	for i, v := range c.graph.Inputs {
		f.Values[v] = in[i]
		h.hold(v, in[i])
	}
	for i := range c.steps {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.step(c, i, f, h); err != nil {
			return nil, err
		}
	}
	out := make([]tensor.Datum, len(c.graph.Outputs))
	for i, v := range c.graph.Outputs {
		d, err := r.value(f, v)
		if err != nil {
			return nil, fmt.Errorf("graph %s: %w", c.graph.Name, err)
		}
		out[i] = d
	}
	return out, nil
}

// held are the bytes of the values of a frame. A nil budget has none.
type held struct {
	budget *ir.Budget
	steps  ir.EvalCtx // ends the counting of many strings or items
	bytes  map[*ir.Value]int64
}

func (h *held) size(v *ir.Value, d tensor.Datum) int64 {
	if h.bytes == nil {
		h.bytes = map[*ir.Value]int64{}
	}
	n := ops.SizeIn(&h.steps, d)
	h.bytes[v] = n
	return n
}

// hold charges the bytes of a value, whether they fit or not.
func (h *held) hold(v *ir.Value, d tensor.Datum) {
	if h.budget != nil {
		h.budget.Hold(h.size(v, d))
	}
}

// take charges the bytes of a value. The error is an *ir.BudgetError.
func (h *held) take(v *ir.Value, d tensor.Datum) error {
	if h.budget == nil {
		return nil
	}
	n := h.size(v, d)
	err := h.budget.Take(n)
	if err != nil {
		delete(h.bytes, v)
	}
	return err
}

// release gives the bytes of a value back.
func (h *held) release(v *ir.Value) {
	h.budget.Release(h.bytes[v])
	delete(h.bytes, v)
}

// end gives all bytes back.
func (h *held) end() {
	for _, n := range h.bytes {
		h.budget.Release(n)
	}
}

// value returns the current datum of v.
func (r *run) value(f *Frame, v *ir.Value) (tensor.Datum, error) {
	if v.Const != nil {
		if r.options.Wide {
			return r.wide[v], nil
		}
		return v.Const, nil
	}
	d, ok := f.get(v)
	if !ok {
		return nil, fmt.Errorf("value %s has not been computed", v.Name)
	}
	return Present(d), nil
}

// step evaluates one node and stores its outputs in f.
func (r *run) step(c *code, i int, f *Frame, h *held) (err error) {
	s := &c.steps[i]
	defer func() {
		if v := recover(); v != nil {
			if ended, ok := v.(*ir.Ended); ok { // in between the evaluations
				err = r.failed(s.node, ended.Err, nil)
				return
			}
			ir.PassOn(v)
			err = r.failed(s.node, nil, v)
		} else if err != nil {
			err = r.failed(s.node, err, nil)
		}
	}()
	in := make([]tensor.Datum, len(s.node.Inputs))
	for j, v := range s.node.Inputs {
		if v == nil {
			continue
		}
		if in[j], err = r.value(f, v); err != nil {
			return err
		}
	}
	at := Place{c.graph, s.node, i, c.inner, c.body}
	if r.watch != nil {
		if err := r.watch.Before(at); err != nil {
			return err
		}
	}
	out, err := r.compute(s, in, f)
	if err != nil {
		return err
	}
	if r.watch != nil {
		if err := r.watch.After(at, out); err != nil {
			return err
		}
	}
	for j, v := range s.node.Outputs {
		if v == nil {
			continue
		}
		if err := h.take(v, out[j]); err != nil {
			return err
		}
		f.Values[v] = out[j]
	}
	for _, v := range s.free {
		h.release(v)
		delete(f.Values, v)
	}
	if r.watch != nil {
		return r.watch.Done(at)
	}
	return nil
}

func (r *run) failed(n *ir.Node, err error, panicked any) error {
	switch {
	case r.options.Failed != nil:
		return r.options.Failed(n, err, panicked)
	case err == nil:
		err = fmt.Errorf("internal error: %v", panicked)
	}
	return fmt.Errorf("node %v: %w", n, err)
}

// compute evaluates a node: one datum for each of its outputs.
func (r *run) compute(s *step, in []tensor.Datum, f *Frame) ([]tensor.Datum, error) {
	n := s.node
	if s.body != nil {
		return r.body(s, in, f)
	}
	if r.options.Bounded {
		if err := r.spend(n, in); err != nil {
			return nil, err
		}
	}
	out, err := r.charged(&ir.EvalCtx{
		Node: n, Ctx: r.ctx, Wide: r.options.Wide, Kernel: r.options.Kernel, Budget: r.budget,
		Call: func(g *ir.Graph, in []tensor.Datum) ([]tensor.Datum, error) {
			c, ok := r.codes[g]
			if !ok {
				return nil, fmt.Errorf("graph %s is not a subgraph of the node", g.Name)
			}
			return r.graph(c, in, f)
		},
	}, in)
	if err != nil {
		return nil, err
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(out) {
			return nil, fmt.Errorf("operator returned %d results, but output %d (%s) is needed", len(out), i, v.Name)
		}
	}
	return out, nil
}

// charged evaluates a node within the budget and the context, and releases its charges afterwards.
func (r *run) charged(c *ir.EvalCtx, in []tensor.Datum) (out []tensor.Datum, err error) {
	if err := ops.CheckShapes(c.Node.Op, in); err != nil {
		return nil, err
	}
	defer func() {
		c.Discharge(0)
		switch v := recover().(type) {
		case nil:
		case *ir.BudgetError:
			out, err = nil, v
		case *ir.Ended:
			out, err = nil, v.Err
		default:
			panic(v)
		}
	}()
	if out, err = c.Node.Op.Eval(c, in); err != nil || !c.Wide {
		return out, err
	}
	for i := range min(len(out), len(c.Node.Outputs)) {
		if c.Node.Outputs[i] != nil {
			out[i] = widen(c, out[i])
		}
	}
	return out, nil
}

// spend takes the work of a node from the budget: its operator's, and one operation per byte that it reads or
// writes.
func (r *run) spend(n *ir.Node, in []tensor.Datum) error {
	for _, v := range append(n.Inputs[:len(n.Inputs):len(n.Inputs)], n.Outputs...) {
		if v == nil {
			continue
		}
		if t, ok := v.Type.(*ir.TensorType); ok {
			if _, known := t.Shape.Known(); known && !t.NoRank {
				continue
			}
		}
		n = r.actual(n, in)
		break
	}
	for _, d := range in { // texts count, besides elements
		if t, ok := d.(*tensor.Tensor); ok && t != nil && t.DType() == tensor.String {
			if err := r.budget.Spend(ops.SizeOf(t)); err != nil {
				return err
			}
		}
	}
	w := ops.WorkOf(n, nil)
	if w.Flops < 0 || w.Bytes < 0 {
		return r.budget.Spend(-1)
	}
	if err := r.budget.Spend(w.Flops); err != nil {
		return err
	}
	return r.budget.Spend(w.Bytes)
}

// pacer returns a Pacer that ends the evaluation with its context.
func (r *run) pacer() *ir.Pacer {
	if r.pace == nil {
		r.pace = ir.NewPacer((&ir.EvalCtx{Ctx: r.ctx}).Pause)
	}
	return r.pace
}

// actual returns a node like n with the types of the data, as far as these can be derived.
func (r *run) actual(n *ir.Node, in []tensor.Datum) *ir.Node {
	c := *n.Paced(r.pacer())
	c.Inputs = make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		t, ok := in[i].(*tensor.Tensor)
		if v == nil || !ok || t == nil {
			c.Inputs[i] = v
			continue
		}
		c.Inputs[i] = ir.NewConst(v.Name, t)
	}
	types, err := infer(&c)
	if err != nil {
		return &c
	}
	c.Outputs = make([]*ir.Value, len(n.Outputs))
	for i, v := range n.Outputs {
		if v != nil && i < len(types) {
			c.Outputs[i] = &ir.Value{Name: v.Name, Type: types[i], Def: &c}
		} else {
			c.Outputs[i] = v
		}
	}
	return &c
}

func infer(n *ir.Node) (types []ir.Type, err error) {
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	return n.Op.Infer(n)
}

// body evaluates the graph that replaces a node.
func (r *run) body(s *step, in []tensor.Datum, f *Frame) ([]tensor.Datum, error) {
	if err := r.refuses(s.node, in); err != nil {
		return nil, err
	}
	args := make([]tensor.Datum, len(s.args))
	for i, j := range s.args {
		args[i] = in[j]
	}
	got, err := r.graph(s.body, args, f)
	if err != nil {
		return nil, err
	}
	out := make([]tensor.Datum, len(s.node.Outputs))
	for i, v := range s.node.Outputs {
		if v != nil {
			out[i], got = got[0], got[1:]
		}
	}
	return out, nil
}

// refuses returns the error of a node whose operator refuses the shapes of its inputs. The nodes of a body may take
// them.
func (r *run) refuses(n *ir.Node, in []tensor.Datum) error {
	if err := ops.CheckShapes(n.Op, in); err != nil {
		return err
	}
	m, open := *n.Paced(r.pacer()), false
	m.Inputs = slices.Clone(n.Inputs)
	for i, v := range n.Inputs {
		if v == nil || v.Const != nil {
			continue
		}
		t, ok := v.TensorType()
		x, ok2 := in[i].(*tensor.Tensor)
		if !ok || !ok2 || x == nil {
			continue
		}
		if _, known := t.Shape.Known(); known && !t.NoRank {
			continue
		}
		open = true
		m.Inputs[i] = &ir.Value{Name: v.Name, Type: &ir.TensorType{Elem: t.Elem, Shape: ir.Of(x).Shape}}
	}
	if !open {
		return nil
	}
	_, err := n.Op.Infer(&m)
	return err
}

// safely is compute for a single node: a panic becomes an error.
func (r *run) safely(s *step, in []tensor.Datum, f *Frame) (out []tensor.Datum, err error) {
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			out, err = nil, fmt.Errorf("internal error: %v", v)
		}
	}()
	return r.compute(s, in, f)
}
