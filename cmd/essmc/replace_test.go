package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/essmc/essmc/cmd/essmc/internal/tune"
	"github.com/essmc/essmc/ir/tensor"
)

// TestReplace checks that no command replaces a file of another kind than it writes, or the model that it reads.
func TestReplace(t *testing.T) {
	fixtures(t)
	t.Setenv(tune.Variable, tune.Off)
	must(t, "export", "waves", "-o", "waves.onnx")
	must(t, "import", "waves.onnx", "-o", "waves.txt")
	write(t, "waves.csv", tensor.FromSlice(ramp(5*3), 5, 3))
	model, err := os.ReadFile("waves.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"notes.txt": "# Notes\nA list (of things)\n", "table.csv": "name,colour\nocean,blue\n",
		"not.npy": string(model), "script.txt": "main(1, 2)\n", "empty": "",
	} {
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args  []string // the last argument is the file
		found string
	}{
		{[]string{"compile", "waves.onnx", "-o", "waves.onnx"}, "than the model itself"},
		{[]string{"compile", "waves.txt", "-o", "waves.txt"}, "than the model itself"},
		{[]string{"compile", "waves", "-o", "voice.npy"}, "expected a plan to replace, or no file, found a .npy file"},
		{[]string{"compile", "waves", "-o", "waves.onnx"}, "found an ONNX model"},
		{[]string{"compile", "waves", "-o", "waves/config.json"}, "found another kind of file"},
		{[]string{"export", "waves.onnx", "-o", "waves.onnx"}, "than the model itself"},
		{[]string{"export", "waves", "-o", "waves.essm"}, "replace, or no file, found a plan"},
		{[]string{"import", "waves.onnx", "-o", "waves.onnx"}, "than the model itself"},
		{[]string{"import", "waves.onnx", "-o", "notes.txt"}, "expected IR text"},
		{[]string{"import", "waves.onnx", "-o", "script.txt"}, "expected IR text"},
		{[]string{"run", "waves", "-i", "waves.csv", "-o", "not.npy"}, "expected a .npy file to replace"},
		{[]string{"run", "waves", "-i", "waves.csv", "-o", "table.csv"}, "expected a .csv file"},
		{[]string{"explain", "waves", "--html", "notes.txt"}, "expected an HTML page"},
		{[]string{"stream", "waves", "--snapshot", "waves.essm"}, "expected a state of essmc stream"},
		{[]string{"tune", "-o", "waves.onnx"}, "expected a file of essmc tune to replace"},
		{[]string{"tune", "--reset", "-o", "waves.onnx"}, "expected a file of essmc tune"},
		{[]string{"test", ".", "--report", "waves/config.json"}, "expected a report of node tests"},
	} {
		file := c.args[len(c.args)-1]
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, 1, c.args, file, c.found, "--force")
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
			t.Errorf("essmc %s: the file has changed (%v)", strings.Join(c.args, " "), err)
		}
	}
	if err := os.Mkdir("figures", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("figures/convergence.png", []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, 1, []string{"demo", "-o", "figures"}, "convergence.png", "expected a PNG file", "--force")

	// Files of the same kind, empty files, devices, and any file with --force may be replaced.
	for range 2 {
		must(t, "compile", "waves", "-o", "again.essm")
		must(t, "export", "waves", "-o", "again.onnx", "--external", "again.bin")
		must(t, "import", "again.onnx", "-o", "again.txt")
		must(t, "run", "waves", "-i", "waves.csv", "-o", "again.csv")
		must(t, "run", "waves", "-i", "waves.csv", "-o", "again.npz")
		must(t, "explain", "waves", "--html", "again.html")
		must(t, "stream", "waves", "--snapshot", "again.state")
	}
	must(t, "compile", "waves", "-o", "empty")
	must(t, "compile", "waves", "-o", os.DevNull)
	must(t, "compile", "waves.onnx", "-o", "waves.onnx", "--force")
	must(t, "inspect", "waves.onnx")
	must(t, "run", "waves", "-i", "waves.npy", "-o", "not.npy", "--force")
	must(t, "run", "waves", "-i", "waves.npy", "-o", "waves.npy") // as for states
}
