package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// program is a lowered graph with all that this backend decides before shapes are bound.
type program struct {
	*lowering.Program
	costs Costs
	strip int  // rows that strips compute at once
	plain bool // regions share neither memory nor passes, which is what tests hold the others against
}

// binding is a program seen with one set of shapes.
type binding struct {
	*lowering.Binding
	p *program
}

// compile lowers a graph.
func (b backend) compile(g *ir.Graph, c runtime.Config) (*program, error) {
	l, err := lowering.Lower(g, c, &implementer{})
	if err != nil {
		return nil, err
	}
	p := &program{Program: l, costs: b.costs, strip: stripRows}
	p.columns()
	return p, nil
}

// lookup sets what is known of values before the run.
func (p *program) lookup(b runtime.Binding) *binding { return &binding{p.Program.Bind(b, nil), p} }

// within is a program inside of p: a branch, or the body of a loop.
func (p *program) within(l *lowering.Program) *program {
	return &program{Program: l, costs: p.costs, strip: p.strip, plain: p.plain}
}

// sub is the binding of a program inside of d's; nil for nil.
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

// ways are the implementations of a step. Which of them runs is decided when shapes are bound.
type ways struct {
	row      rowMaker
	core     core
	whole    wholeMaker
	spans    spanMaker
	kernel   kernelMaker
	windows  windowMaker // where the step looks along time, so that tiles of it can be computed
	window   *window     // of a step made when shapes are bound, with sequences as rows (see timeMajor)
	sums     *sums       // likewise: of a running sum
	turn     turn        // likewise: brings sequences into another layout
	shared   *runtime.Constants
	form     string       // of recurrences, the one asked for; empty: any
	products tensor.DType // the precision asked for
	lowered  *lowStep     // of a product with constant weights, where that is low
	columns  *columns     // it copies some of its input's features
}

var noWays = &ways{}

// of gives the ways of a step; of one that has none, what must not be written to.
func of(s *lowering.Step) *ways {
	if w, ok := s.Impl.(*ways); ok {
		return w
	}
	return noWays
}

// implementer finds the implementations of steps.
type implementer struct {
	lows map[roundedKey]*lowering.Value // what rounded has made
}

func (*implementer) Name() string { return "cpu" }

// strict are operators that refuse inputs which their bodies would take.
var strict = map[string]bool{"AffineGrid": true, "CausalConvWithState": true, "RMSNormalization": true}

// Implement looks the step's operator up in the tables.
func (b *implementer) Implement(c *lowering.Compiler, s *lowering.Step) lowering.Support {
	n, config := s.Node, &c.Program().Config
	w := &ways{form: config.Kernel, shared: config.Constants, products: config.Products}
	s.Impl = w
	f32, known := true, false
	for i, v := range n.Outputs {
		f32 = f32 && (v == nil || lowering.IsFloat32(v.Type) || i > 0 && keepsState(n))
	}
	key := n.Op.FullName()
	if mk := kernels[key]; mk != nil && ops.Newest(n.Op) && len(n.Subgraphs()) == 0 {
		w.kernel = mk(s)
		known = w.kernel != nil
	}
	if f32 && ops.Newest(n.Op) { // what the kernels compute
		if mk := rows[key]; mk != nil {
			w.row, known = mk(s), true
		}
		if mk := cores[key]; mk != nil {
			w.core, known = mk(s), true
		}
		if mk := wholes[key]; mk != nil {
			w.whole, known = mk(s), true
		}
		if mk := windows[key]; mk != nil {
			w.windows = mk(s)
		}
		if mk := spans[key]; mk != nil {
			w.spans, known = mk(s), true
		}
	}
	if l := w.lowered; w.row != nil && l != nil && l.why == "" {
		s.In = append(s.In, b.rounded(c, s.In[0], s.Source, l))
	}
	switch {
	case w.row != nil || w.core != nil || w.whole != nil || w.spans != nil || w.kernel != nil:
		return lowering.Implemented
	case f32 && !known && !strict[key]:
		return lowering.Expand
	}
	return lowering.Evaluate
}

// keepsState reports whether the node's outputs after the first are what a step graph keeps, which kernels know in other
// types, too.
func keepsState(n *ir.Node) bool { return ops.IsSystem(n.Op) || n.Op == essm.PickStep }
