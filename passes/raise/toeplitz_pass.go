package raise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
)

// Toeplitz raises convolutions that are written as a product with a matrix of lags.
var Toeplitz = &passes.Pass{
	Name: "raise-toeplitz",
	Doc:  "A MatMul along time with a Toeplitz matrix → essm.SSM where exponentials give the kernel, else essm.LongConv.",
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseAll(c, g, "Toeplitz product", func(s *surroundings, n *ir.Node) (bool, string) {
			return n.Op.FullName() == "MatMul" && !s.isFixed(n.Outputs[0]) && s.alongSteps(n), ""
		})
	},
}
