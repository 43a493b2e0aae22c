package graphfuzz

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// planted is a fault in the sources: in a file, old becomes new.
type planted struct{ name, file, old, new string }

// The faults are of different kinds. TestPlanted builds this package with each by itself, by an overlay.
var faults = []planted{
	{"a wrong tie", "runtime/cpu/internal/tensors/reductions/argextreme.go", "x > best && !p.least", "x >= best && !p.least"},
	{"a lost NaN", "runtime/cpu/internal/tensors/reductions/argextreme.go", "p.last && x == best || x != x && best == best",
		"p.last && x == best"},
	{"a wrong bound", "runtime/cpu/internal/windowed/pool.go", "t+o < length {", "t+o <= length {"},
	{"swapped operands", "runtime/cpu/internal/elementwise/operations.go",
		"{Rows: kernel.Sub, Right: kernel.SubS, Left: kernel.SubFromS}",
		"{Rows: kernel.Sub, Right: kernel.SubFromS, Left: kernel.SubS}"},
	{"a stale buffer", "runtime/cpu/ring.go", "\t\tr.clear(r.buf[at : at+r.back*r.width])\n", "\t\t_ = at\n"},
	{"a state that is not reset", "runtime/cpu/recurrence_state.go", "\t\tclear(c.z[lo:hi])\n",
		"\t\t_, _ = lo, hi\n"},
	{"a wrong axis", "runtime/cpu/internal/tensors/moves/trilu.go",
		"from, to := min(max(r%rows+diagonal, 0), columns), columns",
		"from, to := min(max(r%columns+diagonal, 0), columns), columns"},
	{"a pad that is off by one", "runtime/cpu/internal/windowed/conv.go", "record.Reach(first, f.k, dilation)",
		"record.Reach(first-first/3, f.k, dilation)"},
	{"a lost -0", "ir/irtext/literal.go", "\t\tif bits&sign != 0 {", "\t\tif bits&sign != 0 && bits != sign {"},
	{"an alias in place", "runtime/cpu/memory_inplace.go", "if last, read := t.lastRead[x]; read && last > writer || t.made[x] {",
		"if t.made[x] {"},
	{"a wrong broadcast", "runtime/cpu/internal/elementwise/broadcast.go",
		"joins = joins && steps[i][last] == strides[i][a]*d",
		"joins = joins && (steps[i][last] == strides[i][a]*d || strides[i][a] == 0)"},
	{"an overflow of integers", "runtime/cpu/internal/tensors/elements/integerbinary.go",
		"func addition[T Integers](a, b T) T { return a + b }",
		"func addition[T Integers](a, b T) T { return T(float64(a) + float64(b)) }"},
	{"exchanged operands of an epilogue", "runtime/cpu/epilogue.go", "\t\tif op.Exchanged {", "\t\tif !op.Exchanged {"},
	{"the border of a chunk", "runtime/cpu/ring.go", "lo := max(first, t%r.slots*tile)",
		"lo := max(first+1, t%r.slots*tile)"},
	{"an answer that depends on threads", "runtime/cpu/internal/tensors/reductions/cumsum.go", "\tops.Fill(w.Steps, sums, 0)\n", ""},
	{"a dropped capture", "passes/stepgraph/stepgraph.go", "if f := s.flowOf(v); f.kind != Fixed || f.blocked != nil {\n\t\t\t\treturn true",
		"if f := s.flowOf(v); f.kind != Fixed || f.blocked != nil {\n\t\t\t\treturn false"},
	{"a wrong default", "runtime/cpu/internal/tensors/reductions/topkkeys.go", `s.Node.Attrs.Bool("largest", true)`,
		`s.Node.Attrs.Bool("largest", false)`},
	{"a pass that removes values in use", "ir/graph.go", "i > 0 && v != nil && len(uses[v]) == 0 &&",
		"i > 0 && v != nil && len(uses[v]) <= 1 &&"},
	{"a pass that overlooks attributes", "passes/cse.go", "fmt.Fprintf(&b, \"%s=%v;\", a.Name, v)",
		"fmt.Fprintf(&b, \"%s=%T;\", a.Name, v)"},
	{"a state of a stream in another's place", "runtime/stepper.go",
		"\t\trest = rest[copy(rest, part(d, k, n)):]\n", "\t\tcopy(rest, part(d, k, n))\n"},
}

// TestFaultsFit checks that the sources still have the places of the faults.
func TestFaultsFit(t *testing.T) {
	for _, f := range faults {
		b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(f.file)))
		if err != nil {
			t.Error(err)
		} else if k := strings.Count(string(b), f.old); k != 1 {
			t.Errorf("%s: %s has %q %d times, expected once", f.name, f.file, f.old, k)
		}
	}
}

// TestPlanted runs the long mode on a build with each fault, until it finds it, for ESSMC_FUZZ_PLANTED at most. It logs a
// table of the graphs and seconds that it took.
func TestPlanted(t *testing.T) {
	root := filepath.Join("..", "..")
	limit := os.Getenv("ESSMC_FUZZ_PLANTED")
	for _, f := range faults {
		src, err := os.ReadFile(filepath.Join(root, f.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(src), f.old); n != 1 {
			t.Errorf("%s: %s has its place %d times", f.name, f.file, n)
		}
	}
	if limit == "" {
		t.Skip("ESSMC_FUZZ_PLANTED=DURATION looks for each")
	}
	took := regexp.MustCompile(`(?s)\n?([0-9.msh]+): seed (\d+): ([^\n]*)`)
	for i, f := range faults {
		t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
			out, err := plantedRun(t, root, f, limit)
			m := took.FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("not found (%v):\n%s", err, tail(out))
			}
			t.Logf("%d | %s | `%s` | %s graphs, %s | %s", i+1, f.name, f.file, m[2], m[1], m[3])
		})
	}
}

func plantedRun(t *testing.T, root string, f planted, limit string) (string, error) {
	dir := t.TempDir()
	path, err := filepath.Abs(filepath.Join(root, f.file))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(src), f.old, f.new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-run", "TestLong$", "-count=1", "-timeout=0", ".")
	c.Env = append(os.Environ(), "ESSMC_FUZZ="+limit, "ESSMC_FUZZ_STOP=1", "ESSMC_FUZZ_SEED=0", "ESSMC_FUZZ_THREADS=1",
		"ESSMC_FUZZ_OUT=")
	out, err := c.CombinedOutput()
	return string(out), err
}

func tail(s string) string { return s[max(0, len(s)-1500):] }
