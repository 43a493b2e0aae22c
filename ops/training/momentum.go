package training

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Momentum steps along a running sum of gradients.
var Momentum = optimizer("Momentum",
	"g = G + norm_coefficient*X; V' = alpha*V + b*g with b = beta, or 1 at T = 0; X' = X - R*V', or X - "+
		"R*(g+alpha*V') in mode nesterov. Inputs after R "+
		"and T: all X, all G, all V.",
	1, func(n *ir.Node, rate float64, count int64) func([]float64) {
		alpha, beta, norm := ops.Float(n, "alpha"), ops.Float(n, "beta"), ops.Float(n, "norm_coefficient")
		if count == 0 {
			beta = 1
		}
		nesterov := ops.Str(n, "mode") == "nesterov"
		return func(v []float64) {
			g := v[1] + norm*v[0]
			v[2] = alpha*v[2] + beta*g
			if nesterov {
				v[0] -= rate * (g + alpha*v[2])
			} else {
				v[0] -= rate * v[2]
			}
		}
	}, ops.Required(ops.FloatSpec("alpha", 0, "decay factor of the sum of gradients")),
	ops.Required(ops.FloatSpec("beta", 0, "weight of the new gradient")),
	ops.Required(ops.ChoiceSpec("mode", "kind of momentum", "standard", "nesterov")), ops.Required(normAttr))
