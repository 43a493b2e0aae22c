package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResultsMerge checks that a suite measured alone replaces its own section and keeps the others.
func TestResultsMerge(t *testing.T) {
	dir := t.TempDir()
	section := func(found, kernels string) *result {
		return &result{Machine: machine{CPU: "a processor", Kernels: kernels}, Verdicts: []verdict{judge("w|hat", "1×", found, false)},
			Tables: []table{{Title: "T", Header: []string{"a", "b"}, Rows: [][]string{{"x", "1.5 ms"}, {"yy", "–"}}}},
			Notes:  []string{"a note"}}
	}
	for _, step := range []struct{ suite, found, kernels string }{{"dft", "first", "avx2"}, {"gemm", "second", "avx2"},
		{"dft", "other", "avx512"}, {"dft", "third", "avx2"}} {
		r, err := readResults(filepath.Join(dir, "results.json"))
		if err != nil {
			t.Fatal(err)
		}
		r[key{step.suite, step.kernels}] = section(step.found, step.kernels)
		if err := r.write(dir); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	if strings.Contains(page, "first") || !strings.Contains(page, "second") || !strings.Contains(page, "third") ||
		!strings.Contains(page, "other") {
		t.Errorf("not the newest of each suite:\n%s", page)
	}
	if strings.Index(page, "## Dense products") > strings.Index(page, "## Fourier transforms") {
		t.Errorf("the sections are not in the order of the suites:\n%s", page)
	}
	for _, want := range []string{"| a   |      b |\n|-----|-------:|\n| x   | 1.5 ms |\n", `w\|hat`, "**missed**",
		"- a note", "\n### Kernels avx2\n\n", "\n### Kernels avx512\n\n", "\n#### T\n", "\n### T\n",
		"avx512"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// TestResultsOfEarlierVersions checks that a file with one result for each suite is read, by the variant in it.
func TestResultsOfEarlierVersions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(file, []byte(`{"dft": {"machine": {"kernels": "avx2"}}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := readResults(file)
	if err != nil || len(r) != 1 || r[key{"dft", "avx2"}] == nil {
		t.Errorf("found %v, %v", r, err)
	}
	if err := os.WriteFile(file, []byte(`{"dft": null}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := readResults(file); err == nil || !strings.Contains(err.Error(), "dft") {
		t.Errorf("null: %v", err)
	}
}

func TestResultsBad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(file, []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := readResults(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

func TestChoose(t *testing.T) {
	names := []string{}
	for _, s := range suites {
		names = append(names, s.name)
	}
	if all, err := choose("all", names); err != nil || len(all) != len(suites) {
		t.Errorf("all: %d, %v", len(all), err)
	}
	if some, err := choose("dft,gemm", names); err != nil || len(some) != 2 || some[0].name != "dft" {
		t.Errorf("dft,gemm: %v, %v", some, err)
	}
	if _, err := choose("dfts", names); err == nil || !strings.Contains(err.Error(), `"dfts"`) {
		t.Errorf("dfts: %v", err)
	}
}
