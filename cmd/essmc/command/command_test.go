package command

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(string(want), "\r\n", "\n"); got != want {
		t.Errorf("%s (renew with -update):\n%s", name, lineDifference(want, got))
	}
}

// lineDifference returns the lines that only one of two texts has.
func lineDifference(want, got string) string {
	var b strings.Builder
	x, y := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, l := range x {
		if !slices.Contains(y, l) {
			b.WriteString("- " + l + "\n")
		}
	}
	for _, l := range y {
		if !slices.Contains(x, l) {
			b.WriteString("+ " + l + "\n")
		}
	}
	if b.Len() == 0 {
		return "the same lines in another order\n"
	}
	return b.String()
}

// essmc runs the command.
func essmc(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// must runs the command, which must succeed.
func must(t testing.TB, args ...string) string {
	t.Helper()
	code, stdout, stderr := essmc(args...)
	if code != 0 {
		t.Fatalf("essmc %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// fixtures makes files for tests in a new directory, and makes it the current one:
//
//	waves   takes one sequence of 3 features, causal
//	tokens  takes tokens below 18, with lengths; has class names
//	voice   takes one feature, bidirectional
//	pairs   takes documents in pairs
//
// Each has a plan NAME.essm.
func fixtures(t *testing.T) {
	t.Helper()
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("ESSMC_TEST_HOME", home)
	small := []string{"--set", "d_model=8", "--set", "n_layers=2", "--set", "layer.heads=2", "--set", "layer.d_state=8",
		"--seed", "1"}
	for _, m := range [][]string{
		{"image", "-o", "waves", "--set", "encoder.d_input=3", "--set", "layer.bidirectional=false", "--set",
			"decoder.mode=none", "--set", "decoder.d_output=2"},
		{"listops", "-o", "tokens", "--set", "layer.bidirectional=true"},
		{"sc10", "-o", "voice"},
		{"retrieval", "-o", "pairs"},
	} {
		must(t, append(append([]string{"init"}, m...), small...)...)
	}
	setConfig(t, "tokens", "id2label", map[string]string{"0": "zero", "1": "one", "2": "two", "3": "three", "4": "four",
		"5": "five",
		"6": "six", "7": "seven", "8": "eight", "9": "nine"})
	for _, m := range []string{"waves", "tokens", "voice", "pairs"} {
		must(t, "compile", m, "-o", m+".essm")
	}
	write(t, "waves.npy", tensor.FromSlice(ramp(2*5*3), 2, 5, 3))
	write(t, "voice.npy", tensor.FromSlice(ramp(2*7), 2, 7, 1))
	write(t, "tokens.npy", tensor.FromSlice([]int64{1, 2, 3, 4, 17, 0, 5, 6}, 2, 4))
	write(t, "lengths.npy", tensor.FromSlice([]int64{4, 2}, 2))
}

func ramp(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i%7)/4 - 0.5
	}
	return v
}

func write(t *testing.T, path string, x *tensor.Tensor) {
	t.Helper()
	if err := arrays.Write(path, x); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) *tensor.Tensor {
	t.Helper()
	a, err := arrays.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return a.Tensor
}

// setConfig changes one key of a model's config.json.
func setConfig(t *testing.T, dir, key string, value any) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	c[key] = value
	if data, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// contents returns those of everything below the current directory, by name.
func contents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			out[path] = ""
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameFiles reports changes since the call of contents.
func sameFiles(t *testing.T, before map[string]string) {
	t.Helper()
	after := contents(t)
	for _, f := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[f]; !ok {
			t.Errorf("%s was left behind", f)
		} else if old != after[f] {
			t.Errorf("%s was changed", f)
		}
		delete(before, f)
	}
	for _, f := range slices.Sorted(maps.Keys(before)) {
		t.Errorf("%s is gone", f)
	}
}

// commands lists all commands in the help.
func commands(root *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			out = append(out, c)
		}
	}
	return out
}

func TestHelp(t *testing.T) {
	for _, c := range commands(newRootCommand()) {
		path := strings.Fields(c.CommandPath())[1:]
		for _, flag := range []string{"-h", "--help"} {
			golden(t, filepath.Join("help", c.Name()+".txt"), must(t, append(slices.Clone(path), flag)...))
		}
		if c.Example == "" || c.Short == "" {
			t.Errorf("%s has no example, or no description", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example+"\n"+c.Long, "\n") {
			if len([]rune(line)) > 100 {
				t.Errorf("%s: line of %d characters in help: %s", c.CommandPath(), len(line), line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: flag --%s has no description", c.CommandPath(), f.Name)
			}
		})
	}
	if root := must(t); root != must(t, "help") {
		t.Error("essmc and essmc help differ")
	}
}

// words divides a line as a shell does, with quotes of both kinds.
func words(line string) []string {
	var all []string
	for _, w := range regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`).FindAllString(line, -1) {
		all = append(all, regexp.MustCompile(`"([^"]*)"|'([^']*)'`).ReplaceAllString(w, "$1$2"))
	}
	return all
}

// TestExamples checks that every example in the help is a valid command line.
func TestExamples(t *testing.T) {
	for _, c := range commands(newRootCommand()) {
		for line := range strings.Lines(c.Example) {
			if strings.HasPrefix(c.Name(), "completion") {
				continue // these are pipelines
			}
			if i := strings.Index(line, "| "); i >= 0 { // without the parts for the shell
				line = line[i+2:]
			}
			line, _, _ = strings.Cut(line, " <")
			root := newRootCommand()
			found, rest, err := root.Find(words(line)[1:])
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err == nil {
				err = found.ValidateArgs(found.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: example %q: %v", c.CommandPath(), strings.TrimSpace(line), err)
			}
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := must(t, "completion", shell); !strings.Contains(out, "essmc") {
			t.Errorf("%s: no script", shell)
		}
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"init", ""}, []string{"listops", "psmnist", "scifar"}},
		{[]string{"init", "image", "--set", ""}, []string{"layer.bidirectional=", "decoder.mode="}},
		{[]string{"run", "m", "--kernel", ""}, []string{"auto", "scan", "chunked", "fft", "direct"}},
		{[]string{"run", "m", "--device", ""}, []string{"cpu", "ref"}},
		{[]string{"run", "m", "--precision", ""}, []string{"float32", "float64"}},
		{[]string{"ops", ""}, []string{"essm.SSM", "Softmax"}},
		{[]string{"in"}, []string{"init", "inspect"}},
	} {
		got := must(t, append([]string{"__complete"}, c.args...)...)
		for _, w := range c.want {
			if !strings.Contains("\n"+got, "\n"+w) {
				t.Errorf("%q does not complete to %s: %s", c.args, w, got)
			}
		}
	}
}

var (
	durations = regexp.MustCompile(`\d[\d.]* (ns|µs|ms|s)\b`)
	working   = regexp.MustCompile(`working .*`)
)

func TestTables(t *testing.T) {
	fixtures(t)
	out := map[string]string{
		"presets.txt":    must(t, "init"),
		"inspect.txt":    must(t, "inspect", "tokens"),
		"plan.txt":       must(t, "inspect", "waves.essm"),
		"explain.txt":    must(t, "explain", "tokens.essm", "--shape", "2x64"),
		"lowered.txt":    must(t, "explain", "tokens.essm", "--lowered"),
		"run.txt":        must(t, "run", "tokens", "--input", "tokens.npy", "--device", "ref", "--top", "2"),
		"op.txt":         must(t, "ops", "essm.Pick"),
		"convert.txt":    must(t, "convert", home("../../../frontend/checkpoint/testdata/image.ckpt"), "-o", "converted"),
		"initialise.txt": must(t, "init", "smnist", "-o", "digits"),
	}
	t.Chdir(os.Getenv("ESSMC_TEST_HOME"))
	for name, text := range out {
		if name == "explain.txt" { // the choice of forms depends on the machine
			text, _, _ = strings.Cut(text, "\nForms")
		}
		text = durations.ReplaceAllString(text, "TIME")
		golden(t, filepath.Join("tables", name), working.ReplaceAllString(text, "working …"))
	}
}

// TestExplainLowered checks that the plan for a shape shows steps, and places of values.
func TestExplainLowered(t *testing.T) {
	fixtures(t)
	plan := must(t, "explain", "tokens.essm", "--lowered", "--shape", "2x64")
	for _, want := range []string{"in   input: int64[2,64]", "region of 2 × 64, tiles of ", "@scratch+",
		"# recurrence(", "out  output\n"} {
		if !strings.Contains(plan, want) {
			t.Errorf("no %q in\n%s", want, plan)
		}
	}
	refused(t, 1, []string{"explain", "tokens.essm", "--lowered", "--shape", "Q=3"}, "Q")
}

// home returns a path relative to this package, whatever the current directory is.
func home(path string) string { return filepath.Join(os.Getenv("ESSMC_TEST_HOME"), path) }

func TestVersion(t *testing.T) {
	out := must(t, "version")
	for _, want := range []string{"essmc ", "plans ", "go1.", "threads"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

func TestOpsListsAll(t *testing.T) {
	list := must(t, "ops")
	for _, name := range opNames() {
		if !strings.Contains(list, "  "+name+" ") {
			t.Errorf("%s is not listed", name)
		}
		if one := must(t, "ops", name); !strings.Contains(one, name+", since version ") {
			t.Errorf("%s: %s", name, one)
		}
	}
	if lower := must(t, "ops", "ssm"); !strings.HasPrefix(lower, "essm.SSM,") {
		t.Errorf("ssm finds %s", lower)
	}
}
