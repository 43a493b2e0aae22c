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

// TestCard runs the suite on a card of this machine, for runtime/cuda/device.sh. The processor computes operators without a
// kernel. Where ESSMC_CUDA is "emulate", the card is the emulator, and the suite as short as TestEmulated.
func TestCard(t *testing.T) {
	if os.Getenv("ESSMC_CUDA") == "" {
		t.Skip("ESSMC_CUDA is not set: this machine need not have a card")
	}
	if os.Getenv("ESSMC_CUDA") == "emulate" {
		TestEmulated(t)
		return
	}
	d, err := libcuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	backendtest.Run(t, func() runtime.Backend { return backend(t, d, cuda.Options{Fallback: "cpu"}) },
		backendtest.Options{Must: []string{"*"}, Refuses: refuses, Seeds: 8, Networks: productError})
}
