package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/essmc/essmc/cmd/essmc/command/internal/tune"
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
		{[]string{"compile", "waves.onnx", "-o", "waves.onnx"}, "refusing to replace the model"},
		{[]string{"compile", "waves.txt", "-o", "waves.txt"}, "refusing to replace the model"},
		{[]string{"compile", "waves", "-o", "voice.npy"}, "expected a plan to replace, or no file, found a .npy file"},
		{[]string{"compile", "waves", "-o", "waves.onnx"}, "found an ONNX model"},
		{[]string{"compile", "waves", "-o", "waves/config.json"}, "found another kind of file"},
		{[]string{"export", "waves.onnx", "-o", "waves.onnx"}, "refusing to replace the model"},
		{[]string{"export", "waves", "-o", "waves.essm"}, "replace, or no file, found a plan"},
		{[]string{"import", "waves.onnx", "-o", "waves.onnx"}, "refusing to replace the model"},
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

	// An input may be replaced with --force only, under any of its names, except for a state by its next value.
	must(t, "run", "waves", "-i", "waves.npy", "-o", "state_out=state.npy")
	for name, link := range map[string]func(from, to string) error{"hard.npy": os.Link, "soft.npy": os.Symlink} {
		if err := link("waves.npy", name); err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		refused(t, 1, []string{"run", "waves", "-i", "waves.npy", "-o", name}, name, `refusing to replace input "input"`)
	}
	run := []string{"run", "waves", "-i", "input=waves.npy", "-i", "state_in=state.npy"}
	refused(t, 1, append(run, "-o", "waves.npy"), `waves.npy: refusing to replace input "input"`, "--force")
	refused(t, 1, append(run, "-o", "state.npy"), `state.npy: refusing to replace input "state_in"`, "--force")
	refused(t, 1, append(run, "-o", "output=y.npy", "-o", "state_out=waves.npy"), `refusing to replace input "input"`)
	must(t, append(run, "-o", "output=y.npy", "-o", "state_out=state.npy")...)
	must(t, "run", "waves", "-i", "waves.npy", "-o", "state.npz")
	refused(t, 1, []string{"run", "waves", "-i", "waves.npy", "-o", "output=state.npz", "-i", "state_in=state.npz:state"}, "state.npz")
	must(t, "run", "waves", "-i", "waves.npy", "-o", "waves.npy", "--force")
	if shape := read(t, "waves.npy").Shape(); len(shape) != 3 || shape[2] != 2 {
		t.Errorf("--force has not replaced the input: %v", shape)
	}
}
