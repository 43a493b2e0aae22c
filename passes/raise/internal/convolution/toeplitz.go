package convolution

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Toeplitz raises convolutions that are written as a product with a matrix of lags.
var Toeplitz = &passes.Pass{
	Name: "raise-toeplitz",
	Doc: "A MatMul or Einsum along time with a Toeplitz matrix, or a sum over windows times a kernel → essm.SSM if " +
		"the kernel is a sum of exponentials, else essm.LongConv.",
	After: []passes.Reason{
		regions.AfterUpgrade,
	},
	Before: []passes.Reason{
		regions.BeforeCancelling,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		anchors := []string{"MatMul", "Einsum", "ReduceSum"}
		return raiseAll(c, g, "Toeplitz product", anchors, func(ix *regions.Index, n *ir.Node) (bool, string) {
			switch n.Op.FullName() {
			case "MatMul", "Einsum":
				ok := !ix.IsFixed(n.Outputs[0]) && ix.ActsAlongSteps(n)
				return ok, ix.Unread[n]
			case "ReduceSum":
				return !ix.IsFixed(n.Outputs[0]) && ix.SumsWindows(n), ""
			}
			return false, ""
		})
	},
}
