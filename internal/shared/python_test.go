package shared

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestPython checks that a Python without what a test needs skips the test, by its name and the name of what it lacks, also
// where CI is set.
func TestPython(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-ins are shell scripts")
	}
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output() // python3 may be a script
	if err != nil {
		t.Skip("no python3: ", err)
	}
	python := strings.TrimSpace(string(out))
	dir := t.TempDir()
	script := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
		return file
	}
	// A torch of an older version, and a module that cannot be imported.
	for file, text := range map[string]string{"torch/__init__.py": "", "torch/nn/__init__.py": "",
		"torch/nn/functional.py": "def gelu(): pass", "broken.py": "raise RuntimeError('built for another numpy')"} {
		file = write(t, filepath.Join(dir, "lib", filepath.FromSlash(file)))
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	old := script("old-python", "PYTHONPATH="+filepath.Join(dir, "lib")+" exec "+python+` "$@"`)
	t.Setenv("CI", "true")
	for _, c := range []struct {
		python string
		needs  []string
		want   string
	}{
		{old, nil, ""},
		{old, []string{"os.path", "torch", "torch.nn.functional.gelu"}, ""},
		{old, []string{"torch", "torch.nn.functional.rms_norm"}, "old-python has no torch.nn.functional.rms_norm (ESSMC_PYTHON)"},
		{old, []string{"onnxruntime_not_there"}, "old-python has no onnxruntime_not_there (ESSMC_PYTHON)"},
		{old, []string{"broken"}, "has no broken (RuntimeError: built for another numpy) (ESSMC_PYTHON)"},
		{script("fails", "echo 'pyenv: no such version' >&2; exit 127"), nil, "does not work: exit status 127: pyenv: no such version"},
		{filepath.Join(dir, "absent"), nil, "absent is not there (ESSMC_PYTHON)"},
	} {
		t.Setenv("ESSMC_PYTHON", c.python)
		r := &recorder{}
		got := Python(r, c.needs...)
		if got != c.python || (c.want == "") != (r.ended == "") || !strings.Contains(r.ended, c.want) ||
			strings.HasPrefix(r.ended, "failed") {
			t.Errorf("%s, %q: %s, %q, expected %q", c.python, c.needs, got, r.ended, c.want)
		}
	}
	t.Setenv("ESSMC_PYTHON", "")
	r := &recorder{}
	if Python(r, "numpy", "onnx"); r.ended != "skipped: ESSMC_PYTHON is not set: it names a Python with numpy, onnx" {
		t.Errorf("without ESSMC_PYTHON: %q", r.ended)
	}
}
