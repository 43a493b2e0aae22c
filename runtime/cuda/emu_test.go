package cuda_test

import (
	"os"
	"sync"
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// emulated returns a function that makes backends on emulated cards, each with a schedule of its own. Whatever the emulator
// finds fails t at its end, and what is not given back then.
func emulated(t *testing.T, o cuda.Options) func() runtime.Backend {
	var mu sync.Mutex
	var all []*emu.Driver
	t.Cleanup(func() {
		for _, d := range all {
			for _, f := range d.Close() {
				t.Errorf("%v", f)
			}
		}
	})
	return func() runtime.Backend {
		mu.Lock()
		defer mu.Unlock()
		d := emu.New(emu.Options{Seed: uint64(len(all))})
		all = append(all, d)
		return backend(t, d, o)
	}
}

// productError is the error of products in three parts of TF32 on tensor cores, which cut sums off, against products in
// float32: 5e-7 of the sum of sizes against 2.9e-7.
const productError = 2

// The suite on emulated cards; the processor computes what has no kernel.
func TestEmulated(t *testing.T) {
	skip := map[string]string{
		"memory_bounds":             "TestHost holds the account, and these sizes take long on the emulator",
		"ops/GroupNormalization-21": "its body takes channels that do not divide into groups",
	}
	if os.Getenv("ESSMC_LONG") == "" {
		for _, name := range []string{"forms", "networks", "sequences", "outputs", "sessions"} {
			skip[name] = "takes long: ESSMC_LONG=1 runs it"
		}
	}
	backendtest.Run(t, emulated(t, cuda.Options{Fallback: "cpu"}), backendtest.Options{Must: []string{"*"}, Seeds: 1, Skip: hurried(skip),
		Networks: productError})
}

// The reference cases on emulated cards, without the processor.
func TestReference(t *testing.T) {
	hurry(t)
	backendtest.Reference(t, emulated(t, cuda.Options{}), backendtest.Options{})
}
