package cpu

import (
	goruntime "runtime"
	"sync/atomic"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// program is a lowered graph with the decisions that this backend makes before shapes are bound.
type program struct {
	*lowering.Program
	costs       Costs
	stretchRows int               // rows that a stretch computes at once, over all samples; 0: by threads and weights
	plain       bool              // regions share neither memory nor passes; tests compare other programs with such ones
	warned      *atomic.Bool      // warnSlow has run
	leave       goruntime.Cleanup // leaves the crew, where the program may hire helpers
}

// binding is a program with shapes.
type binding struct {
	*lowering.Binding
	p *program
}

// compile lowers a graph.
func (b backend) compile(g *ir.Graph, c runtime.Config) (_ *program, err error) {
	defer runtime.Ended(&err)
	record.Sealed.Store(true)
	l, err := lowering.Lower(g, c, &implementer{})
	if err != nil {
		return nil, err
	}
	p := &program{Program: l, costs: b.costs, warned: new(atomic.Bool)}
	p.columns(&ir.EvalCtx{Ctx: c.Ctx})
	if c.Threads > 1 {
		helpers.join()
		p.leave = goruntime.AddCleanup(p, (*crew).leave, helpers)
	}
	return p, nil
}

// Close releases nothing but helpers: packed weights are ordinary memory.
func (p *program) Close() error {
	if p.Config.Threads > 1 {
		p.leave.Stop()
		helpers.leave()
		goruntime.KeepAlive(p) // keeps p alive until here
	}
	return nil
}

// lookup binds shapes, and computes the values that follow from them.
func (p *program) lookup(b runtime.Binding) *binding { return &binding{p.Program.Bind(b, nil), p} }

// within returns the program l of a subgraph of p: a branch, or the body of a loop.
func (p *program) within(l *lowering.Program) *program {
	return &program{Program: l, costs: p.costs, stretchRows: p.stretchRows, plain: p.plain, warned: p.warned}
}

// sub returns the binding l of a subgraph of d; nil for nil.
func (d *binding) sub(l *lowering.Binding) *binding {
	if l == nil {
		return nil
	}
	return &binding{l, d.p.within(l.Program)}
}

// subs is sub for several.
func (d *binding) subs(all []*lowering.Binding) []*binding {
	subs := make([]*binding, len(all))
	for i, l := range all {
		subs[i] = d.sub(l)
	}
	return subs
}

// implementer finds the implementations of steps.
type implementer struct {
	lows map[roundedKey]*lowering.Value // what rounded has made
}

func (*implementer) Name() string { return "cpu" }

// Implement finds the implementations of a step, which it keeps in the step.
func (b *implementer) Implement(c *lowering.Compiler, s *lowering.Step) lowering.Support {
	config := &c.Program().Config
	k := &record.Kinds{Record: record.For(s.Node.Op), Element: elementwise.Make(s), Form: config.Kernel,
		Shared: config.Constants, Products: config.Products}
	s.Impl = k
	k.Find(s)
	if k.Element == nil && k.Row == nil {
		k.Tensor = record.FirstOf(k.Tensor, elementwise.Wide(s))
	}
	if l := k.Lowered; k.Row != nil && l != nil && l.Why == "" {
		s.In = append(s.In, b.rounded(c, s.In[0], s.Source, l))
	}
	switch {
	case k.Found():
		return lowering.Implemented
	case k.GivesFloat32(s) && !k.Record.Whole:
		return lowering.Expand
	}
	return lowering.Evaluate
}

// Widens reports whether the operator of n has kernels in float32, or a body of operators: others are evaluated in the
// type of the graph.
func (*implementer) Widens(n *ir.Node) bool {
	r := record.For(n.Op)
	switch {
	case r.Program != record.NoProgram:
		return false
	case r.Whole && r.Tensor.Make == nil && r.Row.Make == nil && !elementwise.Of(n.Op):
		return false
	}
	return elementwise.Of(n.Op) || r.Tensor.Make != nil || r.Row.Make != nil || r.Windowed.Make != nil ||
		r.Streaming.Make != nil || r.Recurrence.Make != nil || n.Op.OfShapes || n.Op.Moves != nil || n.Op.Body != nil
}

// roundedKey names the rounded form of a value, within a group of steps.
type roundedKey struct {
	value        *lowering.Value
	group, parts int
}

// rounded returns the rounded form of x. The first call for x appends the step that computes it.
func (b *implementer) rounded(c *lowering.Compiler, x *lowering.Value, src *ir.Node,
	l *record.LowStep) *lowering.Value {
	key := roundedKey{x, c.Group(), l.Parts}
	if v := b.lows[key]; v != nil && c.Program().Has(v) {
		return v
	}
	s := l.Rounding(x, src, c.Group())
	c.Add(s)
	if b.lows == nil {
		b.lows = map[roundedKey]*lowering.Value{}
	}
	b.lows[key] = s.Out[0]
	return s.Out[0]
}
