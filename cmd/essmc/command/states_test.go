package command

import (
	"os"
	"strings"
	"testing"
)

// TestStates checks inspect --states on a directory, a plan and an ONNX file, its three kinds of files, and what it refuses.
func TestStates(t *testing.T) {
	fixtures(t)
	text := must(t, "inspect", "waves", "--states")
	for _, want := range []string{"layers.0", "layers.1", "zoh", "Δ", "memory", "peak gain"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	must(t, "export", "waves", "-o", "exported.onnx", "--without-optional")
	for _, model := range []string{"waves.essm", "exported.onnx"} { // they have the discrete systems
		if text := must(t, "inspect", model, "--states"); strings.Count(text, "diagonal") != 2 || !strings.Contains(text, "only discrete systems") {
			t.Errorf("%s:\n%s", model, text)
		}
	}
	for file, begin := range map[string]string{"s.html": "<!DOCTYPE html>", "s.csv": "layer,system,", "s.png": "\x89PNG"} {
		for range 2 { // such a file may be replaced
			must(t, "inspect", "waves", "--states", "-o", file)
		}
		if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), begin) {
			t.Errorf("%s begins with %.20q (%v)", file, b, err)
		}
	}
	refused(t, 2, []string{"inspect", "waves", "-o", "x.html"}, "--states")
	refused(t, 2, []string{"inspect", "waves", "--states", "-o", "x.txt"}, ".html, .csv or .png")
	refused(t, 2, []string{"inspect", "waves", "--states", "--json"}, "--json", ".csv")
	if err := os.WriteFile("mine.csv", []byte("a,b\n1,2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, 1, []string{"inspect", "waves", "--states", "-o", "mine.csv"}, "mine.csv", "--force")
	must(t, "init", "mingru-512", "-o", "gru")
	refused(t, 1, []string{"inspect", "gru", "--states"}, "gru", "no eigenvalues", "depends on the input")
	must(t, "init", "cdil-image", "-o", "cdil")
	refused(t, 1, []string{"inspect", "cdil", "--states"}, "cdil", "no state-space layers")
}
