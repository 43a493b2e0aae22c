package lowering

import (
	"context"
	"errors"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// newNodes returns an empty program for the evaluation of nodes as package ops defines them: nodes without an
// implementation, and nodes in subgraphs that are not programs. Lower fills it; it does not change afterwards.
func newNodes(c runtime.Config) *eval.Program {
	return eval.New(eval.Options{Kernel: c.Kernel, Failed: func(n *ir.Node, err error, panicked any) error {
		if panicked != nil {
			return runtime.Recovered(n, panicked)
		}
		return &runtime.NodeError{Node: n, Err: refused(err, "its result")}
	}})
}

// evaluated prepares the evaluation of a node and of its subgraphs.
func (f *Compiler) evaluated(n *ir.Node, src *ir.Node) error {
	err := f.p.nodes.AddNode(n)
	var u *eval.UnsupportedError
	if errors.As(err, &u) {
		return f.unsupported(src, "%s", u.Why)
	}
	return err
}

// evaluate computes a step as package ops defines it, within a budget. in are the values of Step.Args and captured
// those of Step.Captures; nil for absent ones. It returns one result per output of the node, no longer charged to
// the budget.
func (p *Program) evaluate(ctx context.Context, s *Step, in, captured []tensor.Datum,
	b *ir.Budget) ([]tensor.Datum, error) {
	var outer *eval.Frame
	if len(captured) > 0 {
		outer = &eval.Frame{Values: map[*ir.Value]tensor.Datum{}}
		for i, c := range s.Captures {
			outer.Values[c.Inner] = captured[i]
		}
	}
	return p.nodes.Node(ctx, s.Node, in, outer, b)
}
