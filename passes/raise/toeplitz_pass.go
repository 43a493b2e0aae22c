package raise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
)

// Toeplitz raises convolutions that are written as a product with a matrix of lags.
var Toeplitz = &passes.Pass{
	Name: "raise-toeplitz",
	Doc: "A MatMul along time with a Toeplitz matrix → essm.SSM if the kernel is a sum of exponentials, else " +
		"essm.LongConv.",
	After: []passes.Reason{
		afterUpgrade,
	},
	Before: []passes.Reason{
		beforeCancelling,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseAll(c, g, "Toeplitz product", func(s *surroundings, n *ir.Node) (bool, string) {
			return n.Op.FullName() == "MatMul" && !s.isFixed(n.Outputs[0]) && s.alongSteps(n), ""
		})
	},
}

// nearlyToeplitz reports whether a fixed value is a square matrix, or a stack of them, with constant diagonals except
// for a few elements (of the first matrix). A convolution along time has that form when it is written as a product.
func nearlyToeplitz(run *passes.Context, v *ir.Value) bool {
	s := v.Shape()
	if len(s) < 2 || !s[len(s)-1].Equal(s[len(s)-2]) {
		return false
	}
	if l, ok := s[len(s)-1].Known(); !ok || l < minTaps {
		return false
	}
	x, _, err := constantFloats(run, v)
	if err != nil {
		return false
	}
	d, _ := s[len(s)-1].Known()
	l := int(d)
	_, peak := norms(x[:l*l])
	odd, spread := 0, 0
	for i := 1; i < l; i++ {
		for j := 1; j < l; j++ {
			if d := x[i*l+j] - x[(i-1)*l+j-1]; d > 1e-6*peak || d < -1e-6*peak {
				odd++
			}
			if i != j && x[i*l+j] != 0 {
				spread++
			}
		}
		if odd > l {
			return false
		}
	}
	return spread > 0
}
