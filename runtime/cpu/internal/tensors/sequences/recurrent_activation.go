package sequences

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// activation applies a function in place.
type activation func(x []float32)

// activationsOf returns the activations of a recurrent layer, or nil if they are not right.
func activationsOf(n *ir.Node) []activation {
	given, err := std.CellActivations(n)
	if err != nil {
		return nil
	}
	var all []activation
	for _, g := range given {
		var f activation
		a, b := float32(g.A), float32(g.B)
		switch g.Name {
		case "Relu":
			f = func(x []float32) { kernel.Relu(x, x) }
		case "Tanh":
			f = func(x []float32) { kernel.Tanh(x, x) }
		case "Sigmoid":
			f = func(x []float32) { kernel.Sigmoid(x, x) }
		case "Softsign":
			f = each(func(x float64) float64 { return x / (1 + math.Abs(x)) })
		case "Softplus":
			f = each(func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) })
		case "Affine":
			f = func(x []float32) { kernel.ScaleShift(x, x, a, b) }
		case "ScaledTanh":
			f = func(x []float32) {
				kernel.MulS(x, x, b)
				kernel.Tanh(x, x)
				kernel.MulS(x, x, a)
			}
		case "HardSigmoid":
			f = func(x []float32) { kernel.HardSigmoid(x, x, a, b) }
		case "LeakyRelu":
			f = func(x []float32) { kernel.LeakyRelu(x, x, a) }
		case "ThresholdedRelu":
			f = func(x []float32) {
				for i, v := range x {
					if !(v > a) {
						x[i] = 0
					}
				}
			}
		case "Elu":
			f = each(func(x float64) float64 { return max(x, 0) + float64(a)*math.Expm1(min(x, 0)) })
		}
		all = append(all, f)
	}
	return all
}

// each returns an activation that applies f to each number.
func each(f func(x float64) float64) activation {
	return func(x []float32) {
		for i, v := range x {
			x[i] = float32(f(float64(v)))
		}
	}
}

// act clips numbers, and applies activation i of a direction.
func (l *recurrentLayer) act(dir, i int, x []float32) {
	if l.clip > 0 {
		kernel.Clip(x, x, -l.clip, l.clip)
	}
	l.f[dir][i](x)
}
