package toy_test

import (
	"testing"

	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/lowering/internal/toy"
)

func TestBackend(t *testing.T) {
	backendtest.Run(t, toy.New,
		backendtest.Options{Must: []string{"*", "essm.SSM", "essm.DenseSSM", "essm.Scan", "essm.Linear"},
			Refuses: []string{"precision-float64", "precision-bfloat16", "precision-int8", "tf32", "observe"}})
}

func TestReference(t *testing.T) {
	backendtest.Reference(t, toy.New, backendtest.Options{})
}
