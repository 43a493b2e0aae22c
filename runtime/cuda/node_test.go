package cuda_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx/nodetest"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
)

var update = flag.Bool("update", false, "write the golden file anew")

const refusalsHead = `# Node tests of the standard that the backend refuses without the processor: the operator of the
# first node that is refused, the number of its tests, their names.
`

// TestNodeTests runs the node tests of the standard on an emulated card, without the processor. An answer that is wrong fails.
// A test whose model is refused must be in the golden file. The long mode (ESSMC_LONG=1) also runs them after the passes.
func TestNodeTests(t *testing.T) {
	hurry(t)
	skip, err := nodetest.Skips()
	if err != nil {
		t.Fatal(err)
	}
	root, err := nodetest.Open(shared.NodeArchive(t))
	if err != nil {
		t.Fatal(err)
	}
	run := func(o nodetest.Options) string {
		o.Backend, o.Skip = emulated(t, cuda.Options{})(), skip
		results, err := nodetest.Run(context.Background(), root, o)
		if err != nil {
			t.Fatal(err)
		}
		refused := map[string][]string{}
		for _, r := range results {
			var u *runtime.UnsupportedError
			switch {
			case r.Status != nodetest.Failed:
			case errors.As(r.Err, &u):
				op := u.Node.Op.FullName()
				refused[op] = append(refused[op], strings.TrimPrefix(r.Name, "test_"))
			default:
				t.Errorf("%s: %s", r.Name, r.Reason)
			}
		}
		var lines []string
		for op, names := range refused {
			lines = append(lines, fmt.Sprintf("%s %d: %s\n", op, len(names), strings.Join(names, " ")))
		}
		slices.Sort(lines)
		t.Logf("%v", nodetest.Count(results))
		return refusalsHead + strings.Join(lines, "")
	}

	golden(t, "testdata/refused-nodes.txt", run(nodetest.Options{}))
	if os.Getenv("ESSMC_LONG") != "" {
		run(nodetest.Options{Prepare: passes.Optimize})
	}
}

// golden compares a list of refusals with a file, line by line.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("%s (-update): now refused\n%s", file, line)
		}
	}
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("%s (-update): no longer so\n%s", file, line)
		}
	}
}
