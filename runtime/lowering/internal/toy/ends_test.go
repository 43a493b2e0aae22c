package toy_test

import (
	"testing"

	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/lowering/internal/toy"
)

// A context ends the calls of every operator.
func TestCancelEvery(t *testing.T) {
	if testing.Short() {
		t.Skip("measures processor time, which the race detector multiplies")
	}
	backendtest.Ends(t, toy.New, map[string]string{
		"Constant":           "it only names its attribute",
		"If":                 "it runs a branch that the sample states",
		"OptionalHasElement": "it reads no element",
		"SequenceEmpty":      "it gives no item",
		"Shape":              "it reads no element",
		"Size":               "it reads no element",
	})
}
