package lowering

import (
	"context"
	"errors"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// newNodes starts the program that evaluates nodes as ops defines them: those without an implementation, and all nodes of
// subgraphs that are not written out. It is filled at compile time, and read only afterwards.
func newNodes(c runtime.Config) *eval.Program {
	return eval.New(eval.Options{Kernel: c.Kernel, Failed: func(n *ir.Node, err error, panicked any) error {
		if panicked != nil {
			return runtime.Recovered(n, panicked)
		}
		return &runtime.NodeError{Node: n, Err: err}
	}})
}

// evaluated prepares a node, with its subgraphs, for evaluation.
func (f *Compiler) evaluated(n *ir.Node, src *ir.Node) error {
	err := f.p.nodes.AddNode(n)
	var u *eval.UnsupportedError
	if errors.As(err, &u) {
		return f.unsupported(src, "%s", u.Why)
	}
	return err
}

// Evaluate computes a step as ops defines it, from its inputs and the values that its subgraphs capture (Step.Args, Step.Captures;
// nil where absent). It gives one result per output of the node.
func (p *Program) Evaluate(ctx context.Context, s *Step, in, captured []tensor.Datum) ([]tensor.Datum, error) {
	var outer *eval.Frame
	if len(captured) > 0 {
		outer = &eval.Frame{Values: map[*ir.Value]tensor.Datum{}}
		for i, c := range s.Captures {
			outer.Values[c.Inner] = captured[i]
		}
	}
	return p.nodes.Node(ctx, s.Node, in, outer)
}
