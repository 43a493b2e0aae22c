package cuda_test

import (
	"os"
	"testing"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda"
)

// hurried adds the parts of the suite that have nothing for the race detector to skip, where it runs with -short: the
// computations of one session take ten times as long under it.
func hurried(skip map[string]string) map[string]string {
	if race.Enabled && testing.Short() {
		for _, name := range []string{"cases", "ops", "samples", "elements", "forms", "networks", "sequences", "loops", "shapes", "options",
			"threads", "outputs", "memory", "memory_bounds", "unsupported"} {
			skip[name] = "one session at a time, under the race detector"
		}
	}
	return skip
}

// someGraphs is the number of random graphs of each kind: 6, or 20 in the long mode.
func someGraphs() int {
	if longMode() {
		return 20
	}
	return 6
}

func longMode() bool { return os.Getenv("ESSMC_LONG") != "" }

// hurry skips a test that runs one session at a time, as hurried does.
func hurry(t *testing.T) {
	if race.Enabled && testing.Short() {
		t.Skip("one session at a time, under the race detector")
	}
}

// refuses lists the options that the backend does not have.
var refuses = []string{"precision-float64", "precision-int8", "observe"}

// The suite, where the processor computes all operators, under the host's control.
func TestHost(t *testing.T) {
	backendtest.Run(t, func() runtime.Backend { return cuda.Bare(backend(t, tested(), cuda.Options{Fallback: "cpu"})) },
		backendtest.Options{Must: []string{"*"}, Refuses: refuses, Seeds: 2, Graphs: someGraphs(), Small: !longMode(), Skip: hurried(map[string]string{
			"memory_bounds/sequence":     "the result of each iteration is evaluated to memory of its own and copied from there",
			"options/precision-bfloat16": "the processor computes products in float32; TestEmulated has the kernels",
			"options/tf32":               "the processor computes products in float32; TestEmulated has the kernels",
		})})
}
