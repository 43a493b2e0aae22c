package convolution

import (
	"math/cmplx"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// RunningSum raises exponential moving averages that are written as running sums of weighted inputs.
var RunningSum = &passes.Pass{
	Name: "raise-cumsum",
	Doc: "A CumSum along time of inputs times growing weights, times decaying weights → essm.SSM, if all of it is " +
		"one sum of exponentials.",
	After: []passes.Reason{
		regions.AfterUpgrade,
		regions.AfterShapes,
	},
	Before: []passes.Reason{
		{Pass: "fold", Why: "it computes weights in float64; folding rounds them"},
		regions.BeforeCancelling,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseAll(c, g, "weighted running sum", []string{"CumSum"},
			func(ix *regions.Index, n *ir.Node) (bool, string) {
				return n.Op.FullName() == "CumSum" && regions.IsReal(n.Outputs[0].Elem()) &&
					!ix.IsFixed(n.Outputs[0]) && isWeighted(ix, n), ""
			})
	},
}

// isWeighted reports whether the results of a running sum are multiplied or divided by fixed numbers other than one.
func isWeighted(ix *regions.Index, n *ir.Node) bool {
	for _, u := range ix.Uses[n.Outputs[0]] {
		if u.Node == nil || u.Node.Op.FullName() != "Mul" && u.Node.Op.FullName() != "Div" {
			continue
		}
		if w := u.Node.In(1 - u.Index); w != nil && ix.IsFixed(w) {
			if k, ok := w.Shape().Size().Known(); !ok || k > 1 {
				return true
			}
		}
	}
	return false
}

// notDecaying returns why a response is computed better by running sums, or nil.
func (m *model) notDecaying() *miss {
	for _, h := range []*half{m.fwd, m.bwd} {
		switch {
		case h == nil:
			continue
		case h.exps == nil:
			return missf(4, "its weights are not a sum of exponentials: %s", h.why)
		case h.window > 0:
			return missf(4, "its weights end after %d steps", h.window)
		}
		for _, e := range h.exps {
			for _, p := range e.pole {
				if cmplx.Abs(p-1) > 1e-12 {
					return nil
				}
			}
		}
	}
	return missf(-1, "all steps have the same weight")
}
