package cuda_test

import (
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
)

// The suite, where the processor computes all operators, under the host's control.
func TestHost(t *testing.T) {
	backendtest.Run(t, func() runtime.Backend { return cuda.Bare(backend(t, tested(), cuda.Options{Fallback: "cpu"})) },
		backendtest.Options{Must: []string{"*"}, Seeds: 2, Skip: map[string]string{
			"memory_bounds/sequence": "the result of each iteration is evaluated to memory of its own and copied from there",
		}})
}
