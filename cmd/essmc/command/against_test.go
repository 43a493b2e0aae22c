package command

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
)

// TestAgainst checks verify --against ort with stand-ins for Python, and with ONNX Runtime where ESSMC_PYTHON has it.
func TestAgainst(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-ins are shell scripts")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(in(name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("m.txt", `<ir_version: 10, opset_import: ["" : 22]> g (float[2] x) => (float[2] y) { a = Neg (x) y = Abs (a) }`, 0o666)
	must(t, "export", in("m.txt"), "-o", in("m.onnx"))
	array := func(values ...float32) *tensor.Tensor { return tensor.FromSlice(values, len(values)) }
	f, err := os.Create(in("answer.npz"))
	if err == nil {
		err = arrays.WriteNpz(f, map[string]*tensor.Tensor{"y": array(1, 3), "a": array(-1, -2), "wrong": array(-1, -3)})
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	answer := func(values string) string {
		return "#!/bin/sh\ncp " + in("answer.npz") + ` "$4"; echo '{"outputs":{"y":"y"},"values":{` + values + `},"version":"1.0"}'`
	}
	write("python-agrees", answer(`"a":"a"`), 0o777)
	write("python-differs", answer(`"a":"wrong"`), 0o777)
	write("python-lacks", `#!/bin/sh
echo '{"missing":"onnxruntime"}'`, 0o777)
	write("python-refuses", `#!/bin/sh
echo '{"error":"no such operator"}'`, 0o777)
	write("python-fails", "#!/bin/sh\necho 'last line' >&2; exit 3", 0o777)
	x := "[1,-3]"
	for _, c := range []struct {
		python string
		args   []string
		code   int
		want   string
	}{
		{"agrees", []string{in("m.onnx"), "--input", x}, 0, "y  ok: error 0 of 3"},
		{"agrees", []string{in("m.onnx"), "--input", x}, 0, "first value that differs: a of Neg"}, // -3 is 3 here
		{"differs", []string{in("m.onnx"), "--input", "[1,3]"}, 0, "all 1 values of the graph agree"},
		{"agrees", []string{in("m.onnx"), "--input", "[1,2]"}, 1, `output "y" differs from ONNX Runtime 1.0 by 0.333`},
		{"agrees", []string{in("m.onnx"), "--input", x, "--json"}, 0, `"first_difference":{"value":"a"`},
		{"lacks", []string{in("m.onnx")}, 1, "has no module onnxruntime: pip install onnxruntime onnx numpy"},
		{"refuses", []string{in("m.onnx")}, 1, "--against ort: ONNX Runtime: no such operator"},
		{"fails", []string{in("m.onnx")}, 1, "exit status 3: last line"},
		{"nothing", []string{in("m.onnx")}, 1, "is not there; install it, or name another one with ESSMC_PYTHON"},
		{"agrees", []string{in("m.txt")}, 1, "expected an ONNX file, found"},
		{"agrees", []string{in("m.onnx"), "--expect", "y.npy"}, 2, "expected one of --expect and --against"},
	} {
		t.Setenv(pythonVariable, in("python-"+c.python))
		code, stdout, stderr := essmc(append([]string{"verify", "--against", "ort"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s %q: exit code %d\n%s%s\nexpected %d and %q", c.python, c.args, code, stdout, stderr, c.code, c.want)
		}
	}
	if code, _, stderr := essmc("verify", in("m.onnx"), "--against", "tract"); code != 2 || !strings.Contains(stderr, "expected ort") {
		t.Errorf("--against tract: exit code %d, %s", code, stderr)
	}
}

// TestAgainstORT runs ONNX Runtime itself.
func TestAgainstORT(t *testing.T) {
	shared.Python(t, "onnxruntime", "onnx", "numpy")
	dir := t.TempDir()
	file := filepath.Join(dir, "m.onnx")
	must(t, "init", "smnist", "-o", filepath.Join(dir, "m"), "--seed", "1", "--set", "n_layers=1")
	must(t, "export", filepath.Join(dir, "m"), "-o", file, "--without-optional")
	out := must(t, "verify", file, "--against", "ort", "--tol", "1e-4")
	if !strings.Contains(out, "output  ok: ") || !strings.Contains(out, "values of the graph agree within 0.0001") {
		t.Error(out)
	}
}
