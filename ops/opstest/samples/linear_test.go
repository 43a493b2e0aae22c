package samples_test

import (
	"testing"

	"github.com/essmc/essmc/ops/opstest/samples"
)

// coincidences are sets in which an operator is linear only on a sample, or for the numbers that are drawn.
var coincidences = map[string]map[string]string{
	"": {
		"Clip":            "earlier versions may have no bounds",
		"Range":           "the number of its elements depends on its inputs",
		"ReduceLogSumExp": "a sample reduces single elements",
		"ReduceMax":       "a sample reduces single elements",
		"ReduceMin":       "a sample reduces single elements",
		"ReduceProd":      "a sample reduces single elements",
	},
	"ai.onnx.ml": {"ai.onnx.ml.Imputer": "none of the drawn numbers is replaced"},
	"com.microsoft": {
		"com.microsoft.QAttention": "a sample has one step, which has all the attention",
		"com.microsoft.Unique":     "the drawn numbers are different",
	},
}

// TestLinear checks the sets of inputs in which operators are linear, and looks for others.
func TestLinear(t *testing.T) {
	least := map[string]int{"": 200, "essm": 60, "com.microsoft": 40, "ai.onnx.ml": 4, "ai.onnx.preview": 1,
		"ai.onnx.preview.training": 2}
	for _, u := range samples.Suites() {
		u.Linear(t, least[u.Domain], coincidences[u.Domain])
	}
}
