package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/kernels"
)

// TestPasses checks that passes in Options run, are listed, can be skipped and completed, and that the command refuses
// those whose order contradicts itself.
func TestPasses(t *testing.T) {
	t.Chdir(t.TempDir())
	text := "neg (float[B,3] x) => (float[B,3] y) {\n  y = Neg (x)\n}\n"
	writeBytes(t, "g.txt", []byte(text))
	own := &passes.Pass{Name: "acme-notes", Run: func(c *passes.Context, _ *ir.Graph) (int, error) { c.Note("seen by acme"); return 0, nil },
		After: []passes.Reason{{Pass: "fuse", Why: "a test"}}}
	with := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := (Options{Passes: []*passes.Pass{own}}).Main(args, nil, &out, &errs); code != want {
			t.Errorf("%v: exit code %d, expected %d: %s", args, code, want, &errs)
		}
		return out.String() + errs.String()
	}
	for _, args := range [][]string{{"compile", "g.txt", "-o", "g.essm"}, {"explain", "g.txt"}, {"explain", "g.essm"}} {
		if out := with(0, args...); !strings.Contains(out, "acme-notes") || !strings.Contains(out, "seen by acme") {
			t.Errorf("%v: %s", args, out)
		}
	}
	if out := with(0, "compile", "g.txt", "-o", "g.essm", "--skip", "acme-notes"); strings.Contains(out, "seen by acme") {
		t.Errorf("skipped: %s", out)
	}
	if out := with(0, "__complete", "compile", "g.txt", "--skip", ""); !strings.Contains(out, "acme-notes\n") {
		t.Errorf("completed: %s", out)
	}
	own.Before = []passes.Reason{{Pass: "fold", Why: "a test"}}
	if out := with(1, "compile", "g.txt", "-o", "g.essm"); !strings.HasPrefix(out, "essmc: g.txt: the order of passes contradicts itself: fold after acme-notes after fuse after ") {
		t.Error(out)
	}
}

// TestForeignKernel checks that a panic in a kernel of another module is not called a bug in essmc.
func TestForeignKernel(t *testing.T) {
	var out bytes.Buffer
	fault := &kernels.Error{Op: &ir.Op{Domain: "acme", Name: "Gate"}, Kind: "row", Err: &runtime.PanicError{Value: "dry"}}
	if code := report(&out, fault); code != exitBad ||
		out.String() != "essmc: row kernel of acme.Gate: panic: dry (a bug in that kernel, which is not part of essmc; ESSMC_DEBUG=1 shows the stack)\n" {
		t.Errorf("exit code %d: %s", code, &out)
	}
}
