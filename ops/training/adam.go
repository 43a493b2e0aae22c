package training

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Adam scales steps by running means of gradients and their squares.
var Adam = optimizer("Adam",
	"g = G + norm_coefficient*X; V' = alpha*V + (1-alpha)*g; H' = beta*H + (1-beta)*g*g; X' = "+
		"(1-norm_coefficient_post) * (X - r*V'/(sqrt(H')+epsilon)) "+
		"with r = R, or R*sqrt(1-beta^T)/(1-alpha^T) for T above 0. Inputs after R and T: all X, all G, all V, all H.",
	2, func(n *ir.Node, rate float64, count int64) func([]float64) {
		alpha, beta := ops.Float(n, "alpha"), ops.Float(n, "beta")
		norm, post, eps := ops.Float(n, "norm_coefficient"), ops.Float(n, "norm_coefficient_post"),
			ops.Float(n, "epsilon")
		if count > 0 {
			rate *= math.Sqrt(1-math.Pow(beta, float64(count))) / (1 - math.Pow(alpha, float64(count)))
		}
		return func(v []float64) {
			g := v[1] + norm*v[0]
			v[2] = alpha*v[2] + (1-alpha)*g
			v[3] = beta*v[3] + (1-beta)*g*g
			v[0] = (1 - post) * (v[0] - rate*v[2]/(math.Sqrt(v[3])+eps))
		}
	}, ops.FloatSpec("alpha", 0.9, "decay factor of the mean of gradients"),
	ops.FloatSpec("beta", 0.999, "decay factor of the mean of their squares"), epsilonAttr, normAttr,
	ops.FloatSpec("norm_coefficient_post", 0, "reduction of the new tensor, as a fraction"))
