package tensors

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// The default activations of layers.
const (
	sigmoid = "Sigmoid"
	tanh    = "Tanh"
)

// activation applies a function in place.
type activation func(x []float32)

// activationsOf returns the activations of a recurrent layer. It returns nil if their number is not count, or if one
// is unknown.
func activationsOf(n *ir.Node, count int, defaults []string) []activation {
	names := n.Attrs.Strs("activations", nil)
	if names == nil {
		for len(names) < count {
			names = append(names, defaults...)
		}
	}
	if len(names) != count {
		return nil
	}
	alphas, betas := n.Attrs.Floats("activation_alpha", nil), n.Attrs.Floats("activation_beta", nil)
	next := func(list *[]float64, otherwise float64) float32 {
		if len(*list) == 0 {
			return float32(otherwise)
		}
		x := (*list)[0]
		*list = (*list)[1:]
		return float32(x)
	}
	var all []activation
	for _, name := range names { // parameters are listed in order, only for activations that have any
		var f activation
		switch name {
		case "Relu":
			f = func(x []float32) { kernel.Relu(x, x) }
		case tanh:
			f = func(x []float32) { kernel.Tanh(x, x) }
		case sigmoid:
			f = func(x []float32) { kernel.Sigmoid(x, x) }
		case "Softsign":
			f = each(func(x float64) float64 { return x / (1 + math.Abs(x)) })
		case "Softplus":
			f = each(func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) })
		case "Affine":
			a, b := next(&alphas, 1), next(&betas, 0)
			f = func(x []float32) { kernel.ScaleShift(x, x, a, b) }
		case "ScaledTanh":
			a, b := next(&alphas, 1), next(&betas, 1)
			f = func(x []float32) {
				kernel.MulS(x, x, b)
				kernel.Tanh(x, x)
				kernel.MulS(x, x, a)
			}
		case "HardSigmoid":
			a, b := next(&alphas, 0.2), next(&betas, 0.5)
			f = func(x []float32) { kernel.HardSigmoid(x, x, a, b) }
		case "LeakyRelu":
			a := next(&alphas, 0.01)
			f = func(x []float32) { kernel.LeakyRelu(x, x, a) }
		case "ThresholdedRelu":
			a := next(&alphas, 1)
			f = func(x []float32) {
				for i, v := range x {
					if !(v > a) {
						x[i] = 0
					}
				}
			}
		case "Elu":
			a := float64(next(&alphas, 1))
			f = each(func(x float64) float64 { return max(x, 0) + a*math.Expm1(min(x, 0)) })
		default:
			return nil
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
