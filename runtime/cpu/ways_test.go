package cpu

import (
	goflag "flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/essmc/essmc/ops"
)

var update = goflag.Bool("update", false, "rewrite golden files")

// TestWays compares the ways of all operators with a golden file, so that an operator that gets or loses a kernel
// changes it.
func TestWays(t *testing.T) {
	var b strings.Builder
	for _, op := range ops.Default.All() {
		if ops.Newest(op) && !strings.Contains(op.Domain, ".") {
			b.WriteString(strings.TrimRight(fmt.Sprintf("%-28s %-9s  %s", op.FullName(), Way(op),
				strings.Join(Kinds(op), ", ")), " ") + "\n")
		}
	}
	const file = "testdata/ways.txt"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs from the records; -update writes it. Found:\n%s", file, b.String())
	}
}
