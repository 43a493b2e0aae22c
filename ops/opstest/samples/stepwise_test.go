package samples_test

import (
	"testing"

	"github.com/essmc/essmc/ops/opstest/samples"
)

// withoutAlong are the operators that state no Along although a sample goes step by step, with the reasons.
var withoutAlong = map[string]string{
	"Loop":                          "its body decides",
	"GatherElements":                "not stated so far: it goes step by step along axes other than its own",
	"ScatterElements":               "not stated so far: it goes step by step along axes other than its own",
	"MaxUnpool":                     "not stated so far: it goes step by step along samples and channels",
	"ai.onnx.preview.FlexAttention": "not stated so far: it goes step by step along samples and heads",
	"essm.Constrain":                "its inputs are the system, which does not move along time",
	"essm.Discretize":               "its inputs are the system, which does not move along time",
	"essm.DiscretizeDense":          "its inputs are the system, which does not move along time",
}

// TestAlongIsStated checks operators of all domains. It runs after TestSizedBy (files are in the order of their names):
// samples draw their numbers one after the other, and whether Diagonalize is sized by its numbers depends on them.
func TestAlongIsStated(t *testing.T) {
	for _, u := range samples.Suites() {
		u.AlongIsStated(t, withoutAlong)
	}
}
