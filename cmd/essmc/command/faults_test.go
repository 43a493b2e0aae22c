package command

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/fault"
	"github.com/essmc/essmc/internal/faults"
	"github.com/essmc/essmc/ir/tensor"
)

// Whichever operation on a file fails while a command runs: it fails with one line that names no temporary file, and the
// files are as they were, or it has done its work.
func TestFaults(t *testing.T) {
	fixtures(t)
	x := tensor.New(tensor.Float32, 1, 6, 3)
	for i := range tensor.Data[float32](x) {
		tensor.Data[float32](x)[i] = float32(i%5) / 4
	}
	if err := arrays.Write("x.npy", x); err != nil {
		t.Fatal(err)
	}
	must(t, "export", "waves", "-o", "waves.onnx", "--without-optional")
	must(t, "run", "waves.essm", "--input", "x.npy", "-o", "y.npy")
	modes := faults.Writing // the first of them are ways of reading, too
	switch {
	case os.Getenv("ESSMC_LONG") != "":
		modes = slices.Concat(faults.Writing, slices.DeleteFunc(slices.Clone(faults.Reading), func(m faults.Mode) bool {
			return slices.ContainsFunc(faults.Writing, func(w faults.Mode) bool { return w.Name == m.Name && w.Ops == nil && m.Ops == nil })
		}))
	case testing.Short():
		modes = faults.Writing[:1]
	}
	total := 0
	for _, c := range []struct{ name, args, stdin string }{
		{"compile", "compile waves -o new.essm", ""},
		{"compile again", "compile waves.onnx -o waves.essm", ""},
		{"run", "run waves.essm --input x.npy -o new.npy", ""},
		{"run and dump", "run waves.essm --input x.npy --device ref --dump values", ""},
		{"verify", "verify waves.essm --input x.npy --expect y.npy", ""},
		{"inspect", "inspect waves.onnx", ""},
		{"export", "export waves -o new.onnx", ""},
		{"init", "init smnist -o new --seed 2 --set d_model=4 --set n_layers=1 --set layer.heads=1 --set layer.d_state=2", ""},
		{"snapshot", "stream waves.essm --snapshot new.state", "1,2,3\n"},
		{"restore", "stream waves.essm --restore old.state", "1,2,3\n"},
	} {
		if c.name == "restore" {
			var out, errs bytes.Buffer
			args := []string{"stream", "waves.essm", "--snapshot", "old.state"}
			if code := Main(args, strings.NewReader("3,2,1\n"), &out, &errs); code != 0 {
				t.Fatal(errs.String())
			}
		}
		t.Run(c.name, func(t *testing.T) {
			before := contents(t)
			restore := func() { resetTo(t, before) }
			run := func() (code int, stdout, stderr string) {
				var out, errs bytes.Buffer
				code = Main(strings.Fields(c.args), strings.NewReader(c.stdin), &out, &errs)
				return code, out.String(), errs.String()
			}
			// What is printed about a file that was written lacks its size if that cannot be found out.
			answers := !slices.Contains([]string{"compile", "export", "init"}, strings.Fields(c.args)[0])
			code, stdout, stderr := run()
			if code != 0 {
				t.Fatal(stderr)
			}
			after := contents(t)
			for _, m := range modes {
				restore()
				n := m.Count(func() { run() })
				for k := range n {
					restore()
					var out, errs string
					op, path := m.At(k, func() { code, out, errs = run() })
					now := contents(t)
					temps := takeTemporary(now)
					switch about := m.Name + ": " + string(op) + " " + filepath.Base(path); {
					case len(temps) > 0 && !m.On && op != fault.Remove:
						t.Errorf("%s: leaves %v", about, temps)
					case code == 0 && (answers && out != stdout || !maps.Equal(now, after)):
						t.Errorf("%s: exit code 0, but the work is not done: %s%s", about, out, errs)
					case code == 0:
					case !m.On && !maps.Equal(now, before):
						t.Errorf("%s: the files are not as they were: %v, before %v", about,
							slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(before)))
					case strings.Count(errs, "\n") != 1 || strings.Contains(errs, ".tmp"):
						t.Errorf("%s: expected one line that names no temporary file, found %s", about, errs)
					}
				}
				total += n
			}
			restore()
		})
	}
	t.Logf("%d faults", total)
}

// resetTo makes the files below the current directory those of contents.
func resetTo(t *testing.T, files map[string]string) {
	t.Helper()
	now := contents(t)
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(now))) {
		if _, ok := files[path]; !ok {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, content := range files {
		if now[path] == content {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// takeTemporary removes temporary files, and what is in temporary folders, from contents.
func takeTemporary(files map[string]string) (temps []string) {
	for path := range files {
		for p := path; p != "."; p = filepath.Dir(p) {
			if atomicfile.Temporary(p) {
				temps = append(temps, path)
				delete(files, path)
				break
			}
		}
	}
	return temps
}
