//go:build cuda

package cuda_test

import (
	"os"
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver/libcuda"
)

// TestCard runs the suite on a card of this machine: runtime/cuda/device.sh does. What has no kernel is computed by the
// processor.
func TestCard(t *testing.T) {
	if os.Getenv("ESSMC_CUDA") == "" {
		t.Skip("ESSMC_CUDA is not set: this machine need not have a card")
	}
	d, err := libcuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	backendtest.Run(t, func() runtime.Backend { return backend(t, d, cuda.Options{Fallback: "cpu"}) },
		backendtest.Options{Must: []string{"*"}, Seeds: 8, Networks: 2})
}
