package runtime_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/plan"
)

// A program that embeds the runtime is a static file of less than 13 MB when stripped, as docs/embedding.md says, and
// runs a plan.
func TestEmbedded(t *testing.T) {
	dir := t.TempDir()
	program, path := filepath.Join(dir, "embed"), filepath.Join(dir, "model.essm")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./testdata/embed")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	st, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if st.Size() >= 13e6 {
		t.Errorf("the program has %.1f MB", float64(st.Size())/1e6)
	}
	if err := plan.WriteFile(path, network(t, small("pool"))); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, path).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "float32[1,3] [[") {
		t.Errorf("%v: %s", err, out)
	}
}
