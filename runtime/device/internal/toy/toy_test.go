package toy

import (
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
)

var refuses = []string{"precision-float64", "precision-bfloat16", "precision-int8", "tf32", "observe"}

func TestBackend(t *testing.T) {
	backendtest.Run(t, New, backendtest.Options{Must: []string{"*"}, Refuses: refuses, Skip: map[string]string{
		"memory_bounds/sequence": "the result of each iteration is evaluated to memory of its own and copied from there",
	}})
}

func TestReference(t *testing.T) { backendtest.Reference(t, New, backendtest.Options{}) }

// apart returns a backend whose values share no memory.
func apart(early, short int) runtime.Backend {
	b := newBackend()
	b.Apart(early, short)
	return b
}

// The suite with all values apart: nothing reads or writes beyond a value, or one that has ended.
func TestApart(t *testing.T) {
	backendtest.Run(t, func() runtime.Backend { return apart(0, 0) }, backendtest.Options{Must: []string{"*"}, Refuses: refuses,
		Seeds: 2, Skip: map[string]string{
			"memory":        "values that share no memory take more than their account",
			"memory_bounds": "values that share no memory take more than their account",
		}})
}
