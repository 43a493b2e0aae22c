package lowering

import (
	"context"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
)

// The budget for constants of a program is a base plus a number of bytes per byte of the graph's constants. One
// evaluation may take only a part of it. Passes have folded what they can, with budgets of their own; what remains
// comes from the bodies of operators.
const (
	foldBytes, foldBytesPer = 1 << 26, 16
	foldWork, foldWorkPer   = 1 << 27, 256
	nodeBytes, nodeWork     = 1 << 24, 1 << 26
)

// The budget for values that follow from shapes, for a binding and those within it. One evaluation may take a part.
const (
	knownBytes, knownNodeBytes = 1 << 26, 1 << 22
	knownWork, knownNodeWork   = 1 << 26, 1 << 24
)

// folding limits the evaluations of constants of a program, and of those within it.
type folding struct {
	budget *ir.Budget
	source int64      // bytes of the graph's constants
	steps  ir.EvalCtx // ends Lower
}

func newFolding(ctx context.Context, g *ir.Graph) *folding {
	c := ir.EvalCtx{Ctx: ctx}
	n := constantBytes(&c, g, map[*tensor.Tensor]bool{})
	for _, v := range g.Parameters {
		n += ops.SizeOf(v.Init)
	}
	return foldingOf(ctx, n)
}

// foldingOf returns the limits for a graph with n bytes of constants and parameters.
func foldingOf(ctx context.Context, n int64) *folding {
	return &folding{ir.NewBudget(foldBytes+foldBytesPer*n, foldWork+foldWorkPer*n), n, ir.EvalCtx{Ctx: ctx}}
}

func constantBytes(c *ir.EvalCtx, g *ir.Graph, seen map[*tensor.Tensor]bool) (n int64) {
	for _, m := range g.Nodes {
		c.Step(8)
		for _, v := range m.Inputs {
			if c.Step(16); v != nil && v.Const != nil && !seen[v.Const] {
				seen[v.Const] = true
				n += ops.SizeOf(v.Const)
			}
		}
		for _, s := range m.Subgraphs() {
			n += constantBytes(c, s, seen)
		}
	}
	return n
}

// evaluate computes a node from constants. The error is an *ir.BudgetError if the node exceeds its part of the
// budget, or its results exceed the rest of it.
func (f *folding) evaluate(n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	var have int64
	for _, d := range in {
		have += ops.SizeOf(d)
	}
	have = min(have, f.source) // the folded constants may be larger
	return granted(&f.steps, f.budget, nodeBytes+foldBytesPer*have, nodeWork+foldWorkPer*have, n, in)
}

// granted computes a node within a part of a budget, and charges its operations and results to the budget. It panics
// with an *ir.Ended when the context of c is done.
func granted(c *ir.EvalCtx, b *ir.Budget, bytes, work int64, n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	leftBytes, leftWork := b.Left()
	part := ir.NewBudget(min(leftBytes, bytes), min(leftWork, work))
	ctx := c.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	out, err := eval.Options{Bounded: true}.Node(ctx, n, in, part)
	if err != nil {
		c.Pause()
	}
	if e := b.Spend(part.Spent()); err == nil {
		err = e
	}
	var size int64
	for _, d := range out {
		size += ops.SizeOf(d)
	}
	if err == nil {
		err = b.Take(size)
	}
	return out, err
}

// newKnown returns the budget for values that follow from shapes.
func newKnown() *ir.Budget { return ir.NewBudget(knownBytes, knownWork) }

// evaluate computes a node whose inputs follow from the shapes.
func (d *Binding) evaluate(n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	return granted(d.Steps(), d.known, knownNodeBytes, knownNodeWork, n, in)
}
