package training

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Adagrad scales steps by the squares of all gradients so far.
var Adagrad = optimizer("Adagrad",
	"g = G + norm_coefficient*X; H' = H + g*g; X' = X - R/(1+T*decay_factor) * g/(sqrt(H')+epsilon). Inputs after R "+
		"and T: all X, all G, all H.",
	1, func(n *ir.Node, rate float64, count int64) func([]float64) {
		rate /= 1 + float64(count)*ops.Float(n, "decay_factor")
		norm, eps := ops.Float(n, "norm_coefficient"), ops.Float(n, "epsilon")
		return func(v []float64) {
			g := v[1] + norm*v[0]
			v[2] += g * g
			v[0] -= rate * g / (math.Sqrt(v[2]) + eps)
		}
	}, ops.FloatSpec("decay_factor", 0, "decrease of the learning rate with the number of updates"), epsilonAttr,
	normAttr)
