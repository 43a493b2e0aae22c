package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/essmc/essmc/frontend/onnx/nodetest"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime/plan"
)

// TestNodeTests checks that the standard's node tests pass on both devices, and that docs/onnx.md has the number of those of
// the last release.
func TestNodeTests(t *testing.T) {
	root, err := nodetest.Open(shared.NodeTests(t))
	if err != nil {
		t.Fatal(err)
	}
	results := passNodeTests(t, root, 1756)
	page, err := os.ReadFile("../../../docs/onnx.md")
	if err != nil {
		t.Fatal(err)
	}
	page = bytes.ReplaceAll(page, []byte("\r\n"), []byte("\n"))
	if want, err := nodetest.Insert(page, nodetest.Markdown(results)); err != nil || !bytes.Equal(page, want) {
		t.Errorf("the table in docs/onnx.md is not up to date: go run ./cmd/essmc test %s --markdown docs/onnx.md (%v)",
			shared.NodeTests(t), err)
	}
}

// TestNewerNodeTests does this with the tests of the coming release, which has operator set 28, as far as they are not the
// same files as in the last one.
func TestNewerNodeTests(t *testing.T) {
	newer, same := nodeFiles(t, shared.Path(t, "onnx", "node-tests-1.23-dev.tar.gz")), 0
	skip, err := nodetest.Skips()
	if err != nil {
		t.Fatal(err)
	}
	older := nodeFiles(t, shared.NodeArchive(t))
	root := fstest.MapFS{}
	for name, files := range newer {
		if skip[name] == "" && maps.EqualFunc(files, older[name], func(a, b *fstest.MapFile) bool { return bytes.Equal(a.Data, b.Data) }) {
			same++
			continue
		}
		for file, data := range files {
			root[name+"/"+file] = data
		}
	}
	if same < len(newer)/2 {
		t.Errorf("%d of %d tests are those of the last release, expected more", same, len(newer))
	}
	passNodeTests(t, root, 1826-same)
}

// nodeFiles returns the files of each test of an archive.
func nodeFiles(t *testing.T, archive string) map[string]fstest.MapFS {
	t.Helper()
	root, err := nodetest.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]fstest.MapFS{}
	for name, data := range root.(fstest.MapFS) {
		parts := strings.Split(name, "/")
		i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "test_") })
		if i < 0 || i == len(parts)-1 {
			continue
		}
		if tests[parts[i]] == nil {
			tests[parts[i]] = fstest.MapFS{}
		}
		tests[parts[i]][strings.Join(parts[i+1:], "/")] = data
	}
	return tests
}

// passNodeTests checks that at least floor tests pass, that none fails, and returns the results on the cpu. There the graph
// after the passes is written to a plan and read back.
func passNodeTests(t *testing.T, root fs.FS, floor int) (results []nodetest.Result) {
	for _, on := range []string{"ref", "cpu"} {
		o, err := testOptions(&device{on}, "none", 0)
		if err != nil {
			t.Fatal(err)
		}
		if on == "cpu" {
			o.Prepare = throughPlan
		}
		results, err = nodetest.Run(context.Background(), root, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Status == nodetest.Failed {
				t.Errorf("%s: %s %v: %s", on, r.Name, r.Ops, r.Reason)
			}
		}
		if c := nodetest.Count(results); c.Passed < floor {
			t.Errorf("%s: %v, expected at least %d passed", on, c, floor)
		}
	}
	return results
}

// throughPlan runs the passes, writes the graph to a plan, and reads it back.
func throughPlan(g *ir.Graph) error {
	if err := passes.Run(g, open.Pipeline(), passes.Options{}); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := plan.Write(&b, g); err != nil {
		return err
	}
	back, err := plan.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), "plan", ops.Default, plan.Limits{})
	if err != nil {
		return err
	}
	*g = *back
	return nil
}

// nodeTest returns the files of one test: an operator on a scalar.
func nodeTest(op string, in, out float32) map[string][]byte {
	datum := func(v float32) []byte {
		return slicesConcat(pbNum(2, uint64(tensor.Float32)),
			pbMsg(9, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))))
	}
	return map[string][]byte{
		"model.onnx": pbModel(pbNode(op, "x", "y"), pbValue(11, "x", tensor.Float32),
			pbValue(12, "y", tensor.Float32)),
		"test_data_set_0/input_0.pb":  datum(in),
		"test_data_set_0/output_0.pb": datum(out),
	}
}

func TestTestCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	for name, files := range map[string]map[string][]byte{
		"test_neg": nodeTest("Neg", 2, -2), "test_abs": nodeTest("Abs", -2, 3), "test_foo": nodeTest("Foo", 1, 1),
		"test_bernoulli": nodeTest("Abs", 1, 9),
	} {
		for file, data := range files {
			writeBytes(t, filepath.Join("node", name, file), data)
			if err := w.WriteHeader(&tar.Header{Name: "./node/" + name + "/" + file, Size: int64(len(data)),
				Mode: 0o666}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	writeBytes(t, "tests.tar.gz", archive.Bytes())
	writeBytes(t, "cut.tar.gz", archive.Bytes()[:archive.Len()/2])
	var up bytes.Buffer
	z = gzip.NewWriter(&up)
	w = tar.NewWriter(z)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "../../model.onnx", Mode: 0o666}), w.Close(),
		z.Close()); err != nil {
		t.Fatal(err)
	}
	writeBytes(t, "up.tar.gz", up.Bytes())
	writeBytes(t, "words", []byte("words\n"))
	if err := os.Mkdir("none", 0o777); err != nil {
		t.Fatal(err)
	}

	for _, root := range []string{"node", ".", "tests.tar.gz"} {
		for _, device := range []string{"cpu", "ref"} {
			code, stdout, stderr := essmc("test", root, "--device", device, "--report", "report.json")
			if code != 1 || !strings.HasSuffix(stdout, "\n1 passed, 2 failed, 1 skipped\n") ||
				!strings.Contains(stderr, "2 tests of 4 failed") {
				t.Errorf("%s: exit code %d: %s%s", root, code, stdout, stderr)
			}
			for _, want := range []string{"element 0 of float32[]: expected 3, found 2", "Foo (1 test)",
				"random numbers"} {
				if !strings.Contains(stdout, want) {
					t.Errorf("no %q in %s", want, stdout)
				}
			}
			var report map[string]any
			b, err := os.ReadFile("report.json")
			if err == nil {
				err = json.Unmarshal(b, &report)
			}
			if err != nil || len(report["passed"].([]any)) != 1 ||
				report["passed"].([]any)[0] != "OnnxBackendNodeModelTest::test_neg_cpu" {
				t.Errorf("report %s: %v", b, err)
			}
		}
	}
	if out := must(t, "test", "tests.tar.gz", "-k", "neg|bern", "-j", "1"); !strings.HasSuffix(out,
		"\n1 passed, 0 failed, 1 skipped\n") {
		t.Errorf("found %s", out)
	}
	if out := must(t, "test", "node", "--list"); out != "test_abs\ntest_bernoulli\ntest_foo\ntest_neg\n" {
		t.Errorf("found %s", out)
	}
	writeBytes(t, "doc.md",
		[]byte("before\n<!-- node tests, written by essmc test --markdown: begin -->\nold\n<!-- node tests: end "+
			"-->\nafter\n"))
	if code, _, stderr := essmc("test", "node", "--markdown", "doc.md"); code != 1 ||
		strings.Contains(stderr, "doc.md") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	b, err := os.ReadFile("doc.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "begin -->\n1 of 4 node tests pass; 2 fail, 1 are not run.",
		"| `Abs` 0/1 | `Foo` 0/1 | `Neg` 1/1 |", "- `test_bernoulli`: random", "<!-- node tests: end -->\nafter\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in %s", want, b)
		}
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{1, []string{"nowhere"}, "nowhere"},
		{1, []string{"none"}, "no folder contains a model.onnx"},
		{1, []string{"none", "--list"}, "no folder contains a model.onnx"},
		{1, []string{"words"}, "expected a folder of node tests"},
		{1, []string{"cut.tar.gz"}, "cut.tar.gz: "},
		{1, []string{"up.tar.gz"}, "is outside the archive"},
		{1, []string{"node", "-k", "xyz"}, "none of the 4 tests matches xyz"},
		{1, []string{"node", "-k", "neg", "--report", "none/a/b.json"}, "none"},
		{1, []string{"node", "--markdown", "words"}, "words: expected the lines"},
		{2, []string{"node", "-k", "("}, "missing closing"},
		{2, []string{"node", "-j", "-1"}, "at least 0"},
		{2, []string{"node", "-k", "a", "--markdown", "doc.md"}, "--markdown"},
	} {
		refused(t, c.code, append([]string{"test"}, c.args...), c.want)
	}
}
