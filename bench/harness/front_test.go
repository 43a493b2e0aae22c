package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPages checks that README.md and RESULTS.md show what results.json has.
func TestPages(t *testing.T) {
	root := filepath.Join("..", "..")
	all, err := readResults(filepath.Join(root, "bench", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	const how = "`go run ./bench -suite none` writes it anew"
	page, err := os.ReadFile(filepath.Join(root, "bench", "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != all.markdown() {
		t.Error("RESULTS.md does not show results.json; " + how)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	x := all.front()
	if x == nil {
		t.Fatal("results.json has no headlines")
	}
	if want, err := insertFront(string(readme), x.readme()); err != nil || want != string(readme) {
		t.Errorf("README.md does not show results.json; %s (%v)", how, err)
	}
}

// TestFront checks the choice of the variant, and the text between the marks.
func TestFront(t *testing.T) {
	one := func(kernels string) *result {
		return &result{Machine: machine{CPU: "a processor", Kernels: kernels, Commit: "c0ffee", Time: "2026-01-02 03:04 UTC",
			Peers: []string{"ONNX Runtime 1.2 by onnxruntime_go v1", "PyTorch 2.0, 1 threads"}},
			Tables: []table{{Header: headlineHeader, Rows: [][]string{{"m " + kernels, "i", "p", "2 ms", "1 ms", "2.00×"}}}}}
	}
	all := results{{"headline", "avx2"}: one("avx2"), {"headline", "avx512"}: one("avx512")}
	part := all.front().readme()
	for _, want := range []string{"| m avx512 |", "one thread, a processor, kernels avx512, ONNX Runtime 1.2, PyTorch 2.0, commit c0ffee (2026-01-02)"} {
		if !strings.Contains(part, want) {
			t.Errorf("%s lacks %q", part, want)
		}
	}
	page, err := insertFront("a\n"+frontBegin+"\nold\n"+frontEnd+"\nb\n", part)
	if err != nil || page != "a\n"+frontBegin+"\n"+part+frontEnd+"\nb\n" {
		t.Errorf("%q, %v", page, err)
	}
	if _, err := insertFront("a\n", part); err == nil {
		t.Error("a page without marks is accepted")
	}
	all[key{"headline", "avx512"}].Quick = true
	if got := all.front(); got.Machine.Kernels != "avx2" {
		t.Errorf("the headlines are of %s, measured with -quick", got.Machine.Kernels)
	}
}

// TestHeadlines checks that every line of the front page can be found: files by name, families by theirs.
func TestHeadlines(t *testing.T) {
	if got, want := headlineFiles(), `^(bert\.float32|resnet50\.float32|random_forest\.1)$`; got != want {
		t.Errorf("files: %s, expected %s", got, want)
	}
	all, err := registered()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headlines {
		found := h.family == ""
		for _, f := range all {
			found = found || f.name == h.family
		}
		if !found || (h.file == "") == (h.family == "") {
			t.Errorf("%s: expected a file or a family", h.model)
		}
	}
}
