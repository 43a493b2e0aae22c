package ref_test

import (
	"testing"

	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/ref"
)

func TestSuite(t *testing.T) {
	backendtest.Run(t, ref.New,
		backendtest.Options{Must: []string{"*", "essm.SSM", "essm.Scan", "essm.Linear"},
			Refuses: []string{"precision-bfloat16", "precision-int8", "tf32"}, Skip: map[string]string{
				"loops/grows": "the interpreter has no memory of its own to bound; scan outputs end at ops.MaxElems",
			}})
}

func TestReference(t *testing.T) {
	backendtest.Reference(t, ref.New, backendtest.Options{})
}
