package main

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestTrialVerdict(t *testing.T) {
	for _, c := range []struct {
		base, here, itself float64
		want               string
	}{
		{1, 1.02, 1, ""}, {1, 1.04, 1.01, "slower"}, {1, 1.04, 1.05, "unclear"}, {1.04, 1, 1.01, ""},
		{1.04, 1, 1.05, ""}, {1, 1, 1.5, ""},
	} {
		if got := (trial{base: c.base, here: c.here, itself: c.itself}).verdict(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	all := []trial{{base: 1, here: 1.2, itself: 1.01}, {base: 1.1, here: 0.9, itself: 1.3},
		{base: 2, here: 1.1, itself: 1.02}}
	if x := together(all); x.base != 1 || x.here != 0.9 || x.itself != 1.3 {
		t.Errorf("together: %+v", x)
	}
}

func TestTrialReadsLeastTimes(t *testing.T) {
	s := &samples{names: []string{"base 0", "here 0", "here 1", "base 1"},
		times: [][]float64{{3, 2}, {5, 4}, {6, 5}, {4, 7}}}
	var x trial
	x.read(s)
	if x.base != 2 || x.here != 4 || x.itself != 2 {
		t.Errorf("%+v", x)
	}
	x.facts = [2]facts{{"a", 100}, {"b", 102}}
	if line := x.line("name"); !strings.Contains(line, "unclear") || !strings.Contains(line, "answers differ") ||
		!strings.Contains(line, "allocations 102, were 100") {
		t.Errorf("%q: expected that it is not slower beyond what builds show, other answers and allocations", line)
	}
	x.facts[1] = facts{"a", 101}
	if line := x.line("name"); strings.Contains(line, "differ") || strings.Contains(line, "allocations") {
		t.Errorf("%q", line)
	}
}

func TestUnpackRefusesPathsOutside(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"a/b", "../c"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "tree")
	if err := unpack(&b, dir); err == nil || !strings.Contains(err.Error(), `"../c"`) {
		t.Errorf("expected an error that names the file, found %v", err)
	}
	if x, err := os.ReadFile(filepath.Join(dir, "a", "b")); err != nil || string(x) != "x" {
		t.Errorf("a/b holds %q, %v", x, err)
	}
}

// TestBase checks that the commit is built, that both builds are measured, and that each measure has a row.
func TestBase(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the project twice")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := git(ctx, root, "rev-parse", "HEAD"); err != nil {
		t.Skip("the project is not a repository of git here")
	}
	e := &env{root: root, work: t.TempDir(), models: t.TempDir(), threads: 1, quick: true, began: time.Now(),
		peers: &peers{}}
	var out strings.Builder
	if err := runBase(ctx, e, &out, "HEAD", regexp.MustCompile("smnist")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"preset smnist, 1 thread ", "plan smnist, to a session ", "stream smnist, a step ",
		"stream smnist, 64 streams together "} {
		if !strings.Contains(out.String(), "\n"+want) {
			t.Errorf("no row %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "listops") {
		t.Errorf("rows that were not asked for:\n%s", out.String())
	}
	if err := runBase(ctx, e, &out, "no such commit", nil); err == nil ||
		!strings.Contains(err.Error(), `"no such commit"`) {
		t.Errorf("a commit that is not there: %v", err)
	}
}
