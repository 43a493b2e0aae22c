package shared

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// lacking prints the first of the names that Python does not have: modules, and what is in them. A name that cannot be
// looked up for another reason is printed with that reason.
const lacking = `
import importlib, sys
for name in sys.argv[1:]:
    path, at = name.split("."), None
    try:
        for i, part in enumerate(path):
            if i > 0 and hasattr(at, part):
                at = getattr(at, part)
            else:
                at = importlib.import_module(".".join(path[:i + 1]))
    except Exception as e:
        print(name, "" if isinstance(e, ModuleNotFoundError) else f" ({type(e).__name__}: {e})", sep="")
        break
`

// Python returns the interpreter that the environment variable ESSMC_PYTHON names, if it has everything that the test
// needs: names of modules, and of what is in them (numpy, torch.nn.functional.rms_norm). Otherwise it skips the test
// and names the interpreter and what it lacks. No machine must have a peer, so it never fails; and the Pythons that a
// machine happens to have are not used.
func Python(t testing.TB, needs ...string) string {
	t.Helper()
	python := os.Getenv("ESSMC_PYTHON")
	if python == "" {
		t.Skipf("ESSMC_PYTHON is not set: it names a Python with %s", strings.Join(needs, ", "))
	} else if lack := Lacks(python, needs...); lack != "" {
		t.Skipf("%s (ESSMC_PYTHON)", lack)
	}
	return python
}

// Lacks says what a Python interpreter does not have of the names: "" if it has all of them.
func Lacks(python string, needs ...string) string {
	if _, err := exec.LookPath(python); err != nil {
		return fmt.Sprintf("%s is not there", python)
	}
	cmd := exec.Command(python, append([]string{"-c", lacking}, needs...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return fmt.Sprintf("%s does not work: %v: %s", python, err, lines[len(lines)-1])
	}
	if name := strings.TrimSpace(string(out)); name != "" {
		return fmt.Sprintf("%s has no %s", python, name)
	}
	return ""
}
