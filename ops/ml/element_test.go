package ml

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
)

// TestElement compares the operators' expressions with plain Go.
func TestElement(t *testing.T) {
	suite.Element(t, map[string]opstest.Answer{
		"Binarizer": func(n *ir.Node, x []float64) float64 {
			if x[0] > ops.Float(n, "threshold") {
				return 1
			}
			return 0
		},
	}, map[string]string{
		"ZipMap":  "passes its input on",
		"Imputer": "may replace by a number of its own for each feature, from an attribute",
		"Scaler":  "may have numbers of its own for each feature, from attributes",
	})
}
