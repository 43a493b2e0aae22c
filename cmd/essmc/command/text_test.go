package command

import (
	"os"
	"strings"
	"testing"
)

// TestTexts runs a model on texts from the command line, from files, and compares its answers.
func TestTexts(t *testing.T) {
	t.Chdir(t.TempDir())
	graph := `<ir_version: 10, opset_import: ["" : 20]>
		g (string[N] x, string[N] y) => (string[N] z) { z = StringConcat (x, y) }`
	for name, text := range map[string]string{"m.txt": graph, "x.csv": "a\n\"b \"\"c\"\n", "bad.csv": "a,b\nc\n"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	y := `y=["1",""]`
	if got := must(t, "run", "m.txt", "--input", "x=x.csv", "--input", y); !strings.Contains(got, `"a1" "b \"c"`) {
		t.Errorf("found %s", got)
	}
	must(t, "run", "m.txt", "--input", "x=x.csv", "--input", y, "-o", "z.npy")
	must(t, "run", "m.txt", "--input", "x=x.csv", "--input", y, "-o", "z.csv")
	if b, err := os.ReadFile("z.csv"); err != nil || string(b) != "a1\n\"b \"\"c\"\n" {
		t.Errorf("found %q, %v", b, err)
	}
	must(t, "run", "m.txt", "--input", "x=z.npy", "--input", y)
	must(t, "verify", "m.txt", "--input", "x=x.csv", "--input", y, "--expect", "z.npy")
	refused(t, 1, []string{"verify", "m.txt", "--input", `x=["a","b"]`, "--input", y, "--expect", "z.npy"},
		`text 1 of string[2]: expected "b \"c", found "b"`)
	refused(t, 1, []string{"run", "m.txt", "--input", "x=bad.csv", "--input", y}, "wrong number of fields")
}
