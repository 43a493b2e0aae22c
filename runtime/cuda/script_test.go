package cuda_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script returns a folder like those that device.sh build makes, whose programs are stubs: they write the content of
// a file below out and exit with its code.
func script(t *testing.T, edit func(text string) string) (dir string, run func(args ...string) (string, error)) {
	t.Helper()
	for _, program := range []string{"bash", "timeout", "sed"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	text, err := os.ReadFile("device.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write(t, dir, "device.sh", edit(string(text)))
	write(t, dir, "commit", "0123456 (made up)")
	return dir, func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(dir, "device.sh"), args...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
}

// TestScriptReport writes the results of steps that never ran, with numbers that are made up.
func TestScriptReport(t *testing.T) {
	dir, run := script(t, func(text string) string { return text })
	for name, text := range map[string]string{
		"date": "2000-01-01\n", "devices.txt": "cuda:0  a card that is made up  9.0  yes\n", "devices.result": "passed\n",
		"times.txt": "made up: 2 | 3 ms\n", "times.result": "passed\n",
		"suite.txt": "--- FAIL: made up\n", "suite.result": "**failed** (1)\n",
		"torch.txt": "SKIPPED: made up\n", "torch.result": "skipped: made up\n",
		"times/sc35-1x1000.json":        `{"model": "sc35", "median_ms": 1.25, "mean_ms": 7}`,
		"times/sc35-causal-8x1000.json": "{\n  \"mean_ms\": 7,\n  \"median_ms\": 3.5e-02\n}\n",
		"torch.md":                      "| made up | 1x1000 | 1 (2) |\n",
	} {
		write(t, dir, filepath.Join("results", name), text)
	}
	if out, err := run("report"); err != nil {
		t.Fatal(err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "results", "RESULTS-cuda.md"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/results-made-up.md", string(got))
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		return
	}
	write(t, dir, "emulated", "")
	if out, err := run("report"); err != nil {
		t.Fatal(err, out)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "results", "RESULTS-cuda.md")); !strings.Contains(string(got), "no number here is a time") {
		t.Errorf("the results do not tell that the card is the emulator:\n%s", got)
	}
}

// TestScriptRun runs steps by stubs: one hangs, one fails, and a second call runs only these two.
func TestScriptRun(t *testing.T) {
	dir, run := script(t, func(text string) string {
		return strings.ReplaceAll(strings.Replace(text, "step_instructions() { # 900", "step_instructions() { # 1", 1),
			"command -v gcc >/dev/null || command -v cc", "false")
	})
	count := func(name string) int {
		text, _ := os.ReadFile(filepath.Join(dir, name+".calls"))
		return len(text)
	}
	stub := func(name, body string) {
		write(t, dir, name, "#!/usr/bin/env bash\nprintf x >>\"$(dirname \"$0\")/"+name+".calls\"\n"+body+"\n")
	}
	bench := "[ $1 != bench ] || echo '{\"median_ms\": 2}'\n"
	stub("essmc", bench+"echo 'cuda:0 a stub yes'")
	stub("conformance.test", "exec sleep 60")
	stub("cuda.test", "echo 'one fails'; exit 3")
	stub("python3", "exit 1")
	stub("compute-sanitizer", "exit 0")
	results := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "results", "RESULTS-cuda.md"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	out, err := run("run")
	if err == nil {
		t.Errorf("two steps fail, and nobody is told: %s", out)
	}
	for _, want := range []string{"| devices | passed | cuda:0 a stub yes |", "| instructions | **failed**: not done in 1 s |",
		"| answers | passed |", "| times | passed |", "| suite | **failed** (3) | one fails |", "| driver | skipped: no C compiler |",
		"| torch | skipped: python3 has no torch and numpy |", "| sanitizer | passed |", "| smnist | 64x784 | 2 |"} {
		if !strings.Contains(results(), want) {
			t.Errorf("the results lack %q:\n%s", want, results())
		}
	}
	calls := count("essmc")
	stub("conformance.test", "exit 0")
	stub("cuda.test", "exit 0")
	if out, err := run("run"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if s := results(); strings.Contains(s, "failed") || count("essmc") != calls || count("conformance.test") != 2 || count("cuda.test") != 2 ||
		count("compute-sanitizer") != 4 {
		t.Errorf("after the second call, with %d calls of essmc:\n%s", count("essmc")-calls, s)
	}
	if out, err := run("run", "times"); err != nil || count("essmc") != calls+10 {
		t.Errorf("times anew: %v, %d calls of essmc: %s", err, count("essmc")-calls, out)
	}
	if out, err := run("run", "nothing"); err == nil || !strings.Contains(out, "no step nothing: expected some of devices") {
		t.Errorf("an unknown step: %v: %s", err, out)
	}
	stub("essmc", "echo 'cuda:0 a stub no'")
	if out, err := run("run", "devices"); err == nil || !strings.Contains(out, "nothing else can be tried") {
		t.Errorf("without a card: %v: %s", err, out)
	}
}
