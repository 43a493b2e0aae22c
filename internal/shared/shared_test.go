package shared

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that notes how it ended, and goes on.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) {
	r.ended = "skipped: " + fmt.Sprintf(format, args...)
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.ended = "failed: " + fmt.Sprintf(format, args...)
}

func write(t *testing.T, file string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPath(t *testing.T) {
	dir := t.TempDir()
	case1 := write(t, filepath.Join(dir, "reference", "case", "config.json"))
	t.Setenv("ESSMC_SHARED", dir)
	for _, c := range []struct{ ci, want string }{{"", "skipped: "}, {"true", "failed: "}} {
		t.Setenv("CI", c.ci)
		r := &recorder{}
		if got := Path(r, "reference", "case", "config.json"); got != case1 || r.ended != "" {
			t.Errorf("CI=%q: %q, %s", c.ci, got, r.ended)
		}
		Path(r, "reference", "other")
		if !strings.HasPrefix(r.ended, c.want) || !strings.Contains(r.ended, "ESSMC_SHARED") ||
			!strings.Contains(r.ended, "other") {
			t.Errorf("CI=%q, no such case: %q", c.ci, r.ended)
		}
		r = &recorder{}
		if NodeTests(r); !strings.HasPrefix(r.ended, c.want) || !strings.Contains(r.ended, NodeArchiveName) {
			t.Errorf("CI=%q, no node tests: %q", c.ci, r.ended)
		}
	}
}

func TestNodeTests(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	t.Setenv("ESSMC_SHARED", dir)
	beside := write(t, filepath.Join(dir, "onnx", NodeArchiveName))
	for _, c := range []struct{ name, given, tests, archive string }{
		{"none given", "", beside, beside},
		{"an archive", write(t, filepath.Join(other, "mine.tar.gz")), filepath.Join(other, "mine.tar.gz"),
			filepath.Join(other, "mine.tar.gz")},
		{"a folder of tests", other, other, beside},
		{"a folder with the archive", filepath.Dir(beside), beside, beside},
		{"nothing", filepath.Join(other, "nothing"), beside, beside},
	} {
		t.Setenv("ESSMC_ONNX_TESTS", c.given)
		r := &recorder{}
		if tests, archive := NodeTests(r), NodeArchive(r); tests != c.tests || archive != c.archive || r.ended != "" {
			t.Errorf("%s: %q and %q, expected %q and %q; %s", c.name, tests, archive, c.tests, c.archive, r.ended)
		}
	}
}

// Where no folder is named, it is the one beside the module that holds the test, or beside the module around that.
func TestRoot(t *testing.T) {
	t.Setenv("ESSMC_SHARED", "")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "project", "go.mod"))
	case1 := write(t, filepath.Join(dir, "shared", "case"))
	write(t, filepath.Join(dir, "project", "a", "b", "x.go"))
	write(t, filepath.Join(dir, "project", "bench", "inner", "go.mod"))
	for _, at := range []string{"project", "project/a/b", "project/bench/inner"} {
		t.Chdir(filepath.Join(dir, filepath.FromSlash(at)))
		r := &recorder{}
		got, err := filepath.Abs(Path(r, "case"))
		if err != nil || r.ended != "" {
			t.Fatalf("%s: %v, %s", at, err, r.ended)
		}
		if a, b := stat(t, got), stat(t, case1); !os.SameFile(a, b) {
			t.Errorf("%s: %s", at, got)
		}
	}
	t.Chdir(dir)
	if os.Remove(filepath.Join(dir, "shared", "case")) != nil {
		t.Fatal("not removed")
	}
	t.Setenv("CI", "")
	r := &recorder{}
	if Path(r, "case"); !strings.HasPrefix(r.ended, "skipped") {
		t.Errorf("within no module: %q", r.ended)
	}
}

func stat(t *testing.T, file string) os.FileInfo {
	t.Helper()
	s, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
