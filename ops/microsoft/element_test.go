package microsoft

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
)

// TestElement compares the operators' expressions with plain Go.
func TestElement(t *testing.T) {
	gelu := func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }
	suite.Element(t, map[string]opstest.Answer{
		"Gelu":     func(_ *ir.Node, x []float64) float64 { return gelu(x[0]) },
		"BiasGelu": func(_ *ir.Node, x []float64) float64 { return gelu(x[0] + x[1]) },
		"BiasAdd":  func(_ *ir.Node, x []float64) float64 { return x[0] + x[1] + x[2] },
		"FastGelu": func(n *ir.Node, x []float64) float64 {
			v := x[0]
			if n.In(1) != nil {
				v += x[1]
			}
			return v * (1 / (1 + math.Exp(-(2 * math.Sqrt(2/math.Pi) * (v + 0.044715*v*v*v))))) // 0.5·(1 + tanh) cancels
		},
		"QuickGelu": func(n *ir.Node, x []float64) float64 {
			return x[0] * (1 / (1 + math.Exp(-ops.Float(n, "alpha")*x[0])))
		},
	}, map[string]string{"Trilu": "clears by place", "GatedAdd": "rounds the product",
		"LinearAttentionGate": "may have two outputs"})
}
