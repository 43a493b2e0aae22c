package command

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/feed"
	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// pythonVariable names the Python that has ONNX Runtime.
const pythonVariable = "ESSMC_PYTHON"

//go:embed against_ort.py
var againstORT []byte

// ortAnswer is what the script prints.
type ortAnswer struct {
	Missing  string            `json:"missing"` // a module that Python lacks
	Error    string            `json:"error"`
	Outputs  map[string]string `json:"outputs"` // keys of the .npz file, by name
	Values   map[string]string `json:"values"`
	NoValues string            `json:"no_values"` // why there are no values between
	Version  string            `json:"version"`
	file     string
}

// against compares a model with ONNX Runtime: the outputs, and then every value of the graph in its order.
type against struct {
	flags  *runFlags
	inputs *inputFlags
	tol    float64
	asJSON bool
}

func (a *against) run(cmd *cobra.Command, path string) error {
	m, err := a.flags.openFor(cmd, path, a.inputs.specs)
	if err != nil {
		return err
	}
	if m.Kind != open.ONNX {
		return fmt.Errorf("%s: --against ort: expected an ONNX file, found %v; make one with essmc export %s -o "+
			"model.onnx", path, m.Kind, path)
	}
	o, err := a.flags.options(cmd)
	if err != nil {
		return err
	}
	model, err := a.flags.compileModel(cmd, m, o)
	if err != nil {
		return err
	}
	defer model.Close()
	in, err := a.datums(cmd, m, model)
	if err != nil {
		return err
	}
	out, err := compute(cmd, model, &feed.Inputs{Data: in})
	if err != nil {
		return err
	}
	dir := filepath.Join(os.TempDir(), "essmc-ort-"+rand.Text()[:12])
	if err := files.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer files.RemoveAll(dir)
	theirs, err := runORT(cmd.Context(), dir, path, in)
	if err != nil {
		return fmt.Errorf("--against ort: %w", err)
	}
	report := verifyReport{Model: path, OK: true, Tolerance: a.tol, Outputs: []verified{}}
	var beyond error
	for _, p := range model.Outputs() {
		want, err := theirs.read(theirs.Outputs[p.Name])
		if err != nil || want == nil {
			if err != nil {
				return err
			}
			continue // not an array
		}
		d, err := compare(out[p.Name], want)
		if err != nil {
			return fmt.Errorf("output %q: %w", p.Name, err)
		}
		ok := d.relative <= a.tol
		report.OK = report.OK && ok
		report.Outputs = append(report.Outputs, verified{p.Name, "", ok, d.report()})
		if !ok && beyond == nil {
			beyond = fmt.Errorf("%s: output %q differs from ONNX Runtime %s by %.3g, the tolerance is %g", path, p.Name,
				theirs.Version, d.relative, a.tol)
		}
		if !a.asJSON {
			cmd.Printf("%s  %s: error %.3g of %.6g, at %s (ONNX Runtime %.9g, essmc %.9g)\n", p.Name, verdictOf(ok),
				d.relative, d.scale, d.at, d.want, d.found)
		}
	}
	first, err := a.firstValue(cmd, m, in, theirs)
	if err != nil {
		return err
	}
	switch {
	case a.asJSON:
		report.First = first
		if err := writeLine(cmd.OutOrStdout(), report); err != nil {
			return err
		}
	case theirs.NoValues != "":
		note(cmd, "values between are not compared: %s", theirs.NoValues)
	case first == nil:
		cmd.Printf("all %d values of the graph agree within %g\n", len(theirs.Values), a.tol)
	default:
		cmd.Printf("first value that differs: %s of %s, by %.3g\n", first.Value, first.Node, first.Error)
	}
	return beyond
}

func verdictOf(ok bool) string {
	if ok {
		return "ok"
	}
	return "beyond the tolerance"
}

// datums returns the given inputs, and random ones for the others.
func (a *against) datums(cmd *cobra.Command, m *open.Model, model *runtime.Model) (in map[string]tensor.Datum,
	err error) {
	sizes, err := shape{}.sizes(model.Graph(), m.Dims, func(dims map[string]int64) (err error) {
		if in, err = a.inputs.someInputs(cmd, model, dims); err != nil {
			return err
		}
		return tryRun(cmd, model, in)
	})
	if err != nil {
		return nil, err
	}
	if sizes.made && len(a.inputs.specs) == 0 {
		note(cmd, "random inputs with %s; --input gives others", sizes.flag)
	}
	return in, nil
}

// differs is the first value of a graph that differs.
type differs struct {
	Value string  `json:"value"`
	Node  string  `json:"node"`
	Error float64 `json:"error"`
}

// firstValue runs the source graph on the interpreter, node by node, and returns the first value that differs; nil if
// none does.
func (a *against) firstValue(cmd *cobra.Command, m *open.Model, in map[string]tensor.Datum,
	theirs *ortAnswer) (*differs, error) {
	if len(theirs.Values) == 0 {
		return nil, nil
	}
	g, err := m.Source()
	if err != nil {
		return nil, err
	}
	ours := map[*ir.Value]tensor.Datum{}
	f := *a.flags
	f.device.value = "ref"
	o, err := f.options(cmd)
	if err != nil {
		return nil, err
	}
	o.Observe = func(v *ir.Value, d tensor.Datum) { ours[v] = d }
	model, err := f.compileModel(cmd, m, o)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	if _, err := compute(cmd, model, &feed.Inputs{Data: in}); err != nil {
		return nil, err
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v == nil || ours[v] == nil {
				continue
			}
			want, err := theirs.read(theirs.Values[v.Name])
			if err != nil {
				return nil, err
			}
			if want == nil {
				continue
			}
			d, err := compare(ours[v], want)
			if err != nil {
				return nil, fmt.Errorf("value %q of %v: %w", v.Name, n, err)
			}
			if d.relative > a.tol {
				return &differs{v.Name, n.String(), d.relative}, nil
			}
		}
	}
	return nil, nil
}

// read returns an array of the script's file; nil for no key.
func (o *ortAnswer) read(key string) (*tensor.Tensor, error) {
	if key == "" {
		return nil, nil
	}
	a, err := arrays.Read(o.file + ":" + key)
	if err != nil {
		return nil, err
	}
	return a.Tensor, nil
}

// runORT runs a file in ONNX Runtime, with files in dir.
func runORT(ctx context.Context, dir, path string, in map[string]tensor.Datum) (*ortAnswer, error) {
	python := os.Getenv(pythonVariable)
	if python == "" {
		python = "python3"
	}
	if _, err := exec.LookPath(python); err != nil {
		return nil, fmt.Errorf("needs Python with ONNX Runtime: %s is not there; install it, or name another one "+
			"with %s", python, pythonVariable)
	}
	all := map[string]*tensor.Tensor{}
	for name, d := range in {
		t, ok := d.(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("input %q: expected a tensor, found %s", name, tensor.Describe(d))
		}
		all[name] = t
	}
	given, script := filepath.Join(dir, "in.npz"), filepath.Join(dir, "ort.py")
	answer := &ortAnswer{file: filepath.Join(dir, "out.npz")}
	if err := atomicfile.Write(given, func(w io.Writer) error { return arrays.WriteNpz(w, all) }); err != nil {
		return nil, err
	}
	if err := atomicfile.Write(script,
		func(w io.Writer) error { _, err := w.Write(againstORT); return err }); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, python, script, path, given, answer.file)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	text, err := c.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("%s: %w: %s", python, err, lines[len(lines)-1])
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("%s: %w", python, err)
	}
	switch {
	case answer.Missing != "":
		return nil,
			fmt.Errorf("%s has no module %s: pip install onnxruntime onnx numpy, or name another Python with %s",
				python, answer.Missing, pythonVariable)
	case answer.Error != "":
		return nil, errors.New("ONNX Runtime: " + answer.Error)
	}
	return answer, nil
}

// checkAgainst checks the value of --against.
func checkAgainst(cmd *cobra.Command, value string, expect []string) error {
	if !slices.Contains([]string{"", "ort"}, value) {
		return usagef("%s: --against %s: expected ort", cmd.CommandPath(), value)
	}
	if value != "" && len(expect) > 0 {
		return usagef("%s: expected one of --expect and --against", cmd.CommandPath())
	}
	if value == "" && len(expect) == 0 {
		return usagef("%s: --expect FILE is missing", cmd.CommandPath())
	}
	return nil
}
