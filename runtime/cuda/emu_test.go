package cuda_test

import (
	"flag"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// emulated returns a function that makes backends on emulated cards, each with a schedule of its own. The findings of the
// emulator fail t at its end, and so does memory that is not given back then.
func emulated(t *testing.T, o cuda.Options) func() runtime.Backend {
	return emulatedBy(t, func(d *emu.Driver) runtime.Backend { return backend(t, d, o) })
}

// emulatedBy is emulated with backends that on makes.
func emulatedBy(t *testing.T, on func(d *emu.Driver) runtime.Backend) func() runtime.Backend {
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
		return on(d)
	}
}

// productError is the error of products in three parts of TF32 on tensor cores, which cut sums off, against products in
// float32: 5e-7 of the sum of sizes against 2.9e-7.
const productError = 2

// The suite on emulated cards; the processor computes operators without a kernel.
func TestEmulated(t *testing.T) {
	skip := map[string]string{
		"memory_bounds": "TestHost holds the account, and these sizes take long on the emulator",
	}
	if !longMode() {
		for _, name := range []string{"forms", "networks", "sequences", "outputs", "sessions", "loops", "threads", "memory"} {
			skip[name] = "takes long: ESSMC_LONG=1 runs it"
		}
		for _, name := range []string{"ops", "samples", "elements"} {
			skip[name] = "TestRefusals has the kernels, TestHost the processor: ESSMC_LONG=1 runs both together"
		}
	}
	backendtest.Run(t, emulated(t, cuda.Options{Fallback: "cpu"}), backendtest.Options{Must: []string{"*"}, Refuses: refuses, Seeds: 1,
		Graphs: someGraphs(), Small: !longMode(), Skip: hurried(skip), Networks: productError})
}

const refusedHead = `# Operators that the backend refuses without the processor in the suite of backends: all of them, or some
# of their types, shapes and attributes.
`

// The suite on emulated cards without the processor: it refuses the operators of a golden file, and no others.
func TestRefusals(t *testing.T) {
	skip := map[string]string{}
	for _, name := range []string{"forms", "sequences", "shapes", "threads", "outputs", "sessions", "close", "cancel", "memory",
		"options", "parameters"} {
		skip[name] = "TestEmulated has its graphs, which have kernels for all"
	}
	skip["memory_bounds"] = "its limits are those of graphs of which the processor computes a part: TestEmulated has it"
	if !longMode() {
		skip["networks"] = "ESSMC_LONG=1 runs it; TestEmulated has them with the processor"
	}
	hurry(t)
	refused := backendtest.Run(t, emulated(t, cuda.Options{}), backendtest.Options{Seeds: 2, Graphs: 20, Skip: skip,
		Networks: productError})
	if f := flag.Lookup("test.run"); strings.Contains(f.Value.String(), "/") || t.Failed() {
		return // not all parts
	}
	golden(t, "testdata/refused-operators.txt", refusedHead+strings.Join(refused, "\n")+"\n")
}

// The reference cases on emulated cards, without the processor.
func TestReference(t *testing.T) {
	hurry(t)
	skip := map[string]string{}
	if !longMode() {
		for _, name := range []string{"speech", "listops", "retrieval", "image"} {
			skip[name] = "takes long: ESSMC_LONG=1 runs it"
		}
	}
	backendtest.Reference(t, emulated(t, cuda.Options{}), backendtest.Options{Skip: skip, Small: !longMode()})
}
