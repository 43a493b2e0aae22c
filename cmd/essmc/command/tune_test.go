package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/cmd/essmc/command/internal/tune"
	"github.com/essmc/essmc/runtime/cpu"
)

func init() { // tests must not depend on a measurement of this machine
	if err := os.Setenv(tune.Variable, tune.Off); err != nil {
		panic(err)
	}
}

func TestTune(t *testing.T) {
	fixtures(t)
	cache := filepath.Join(t.TempDir(), "cache")
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("LocalAppData", cache)
	t.Setenv(tune.Variable, "")
	explain := func() string { return must(t, "explain", "waves", "--shape", "2x100") }
	if out := explain(); !strings.Contains(out, "default constants") {
		t.Errorf("before: %s", out)
	}
	refused(t, 1, []string{"tune", "--show"}, "has not been measured")
	out := must(t, "tune")
	path := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
	if !strings.HasPrefix(path, cache) || !strings.Contains(out, "recurrence") ||
		!strings.Contains(out, cpu.Kernels()) {
		t.Errorf("tune: %s", out)
	}
	if out := must(t, "tune", "--show"); !strings.Contains(out, "measured 20") || !strings.Contains(out, "recurrence") {
		t.Errorf("show: %s", out)
	}
	if out := explain(); !strings.Contains(out, "from essmc tune of 20") {
		t.Errorf("after: %s", out)
	}
	must(t, "run", "waves", "-i", "waves.npy")

	f, err := tune.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Machine = "an abacus"
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := essmc("explain", "waves", "--shape", "2x100")
	if code != 0 || !strings.Contains(out, "default constants") || strings.Count(stderr, "\n") != 1 ||
		!strings.Contains(stderr, "abacus") {
		t.Errorf("a file of another machine: %d, %s, %s", code, stderr, out)
	}
	must(t, "tune", "--reset")
	must(t, "tune", "--reset") // no results to delete is no error
	if _, err := os.Stat(path); err == nil {
		t.Error("--reset left the file")
	}

	t.Setenv(tune.Variable, "none.json")
	if _, _, stderr := essmc("run", "waves", "-i", "waves.npy"); !strings.Contains(stderr, "none.json") {
		t.Errorf("a file that was named and is not there: %q", stderr)
	}
	t.Setenv(tune.Variable, tune.Off)
	refused(t, 2, []string{"tune"}, tune.Variable)
	refused(t, 2, []string{"tune", "--show", "--reset", "-o", "x.json"}, "exclude")
	must(t, "tune", "-o", "named.json")
	if _, err := tune.Read("named.json"); err != nil {
		t.Error(err)
	}
}
