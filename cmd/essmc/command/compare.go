package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/feed"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func newCompareCommand() *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use:     "compare A [B] (--input [NAME=]FILE … | --shape BxL …)",
		Short:   "Compare two models, or one on two devices, value by value",
		GroupID: groupRun,
		Long: `Compare runs two models on the same inputs and reports the differences of their
outputs; or one model on two devices, in two forms, or in two precisions. Inputs are
files, or numbers and lists. Other inputs are random, of the sizes in --shape. Outputs
are compared by name, or in order if two models have as many outputs of other names.

--values also compares intermediate values of the same name, in the order in which A
computes them. The first one that differs is near the cause. A run on the cpu has only
the values that remain after the passes. Of If, Loop and Scan only the outputs are
compared, not the values inside.

The error is the largest difference between two elements, relative to the largest
absolute value of B. If it is above the tolerance, the exit code is 1.`,
		Example: `  essmc compare model.onnx model.essm --input x.npy
  essmc compare model --shape 2x1024 --device-a ref
  essmc compare model --shape 1x4096 --kernel-a scan --kernel-b fft --tol 1e-6
  essmc compare model --shape 1x4096 --precision-a int8 --tol 0.05
  essmc compare model.essm --shape 2x1024 --device cuda
  essmc compare old.essm new.essm --shape 2x1024 --device ref
  essmc compare old.onnx new.onnx --shape input=1,512 --device-a ref --device-b ref --values`,
		Args: args("A", "[B]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.a.path, c.b.path = args[0], args[len(args)-1]
			for _, d := range []struct {
				flag string
				side *side
			}{{"device-a", &c.a}, {"device-b", &c.b}} {
				// a model is compared with itself on the processor
				alone := len(args) == 1 && d.side == &c.a && !changed(cmd, "device-b")
				if changed(cmd, "device") && !changed(cmd, d.flag) && !alone {
					d.side.device = c.device
				}
			}
			return c.run(cmd)
		},
	}
	c.inputs.register(cmd)
	cmd.Flags().Var(&c.shape, "shape", "sizes of random inputs: samples x steps, or by name")
	c.tol = positive{1e-5, "TOL"}
	cmd.Flags().Var(&c.tol, "tol", "largest allowed error")
	cmd.Flags().BoolVar(&c.values, "values", false, "compare intermediate values too")
	for _, s := range []struct {
		side *side
		of   string
	}{{&c.a, "a"}, {&c.b, "b"}} {
		deviceVar(cmd, &s.side.device, "device-"+s.of, "device for "+strings.ToUpper(s.of))
		choiceVar(cmd, &s.side.kernel, "kernel-"+s.of, "form of "+strings.ToUpper(s.of)+"'s state-space layers",
			runtime.Kernels()...)
		choiceVar(cmd, &s.side.precision, "precision-"+s.of, "of "+strings.ToUpper(s.of)+"'s dense products", "float32",
			"bf16", "int8", "tf32")
	}
	deviceVar(cmd, &c.device, "device", "device for two models; one model is compared with itself on the cpu")
	jsonVar(cmd, &c.asJSON, "write the differences as one JSON object")
	c.threads = whole{0, 0}
	cmd.Flags().Var(&c.threads, "threads", "number of threads; 0: all processors")
	fallbackVar(cmd, &c.fallback)
	return cmd
}

// comparison is the content of the command line.
type comparison struct {
	a, b    side
	inputs  inputFlags
	shape   shape
	tol     positive
	values  bool
	threads whole

	fallback choice
	device   device // of sides without their own
	asJSON   bool
}

// side is one of the two runs.
type side struct {
	path              string
	device            device
	kernel, precision choice
	model             *open.Model
	graph             *ir.Graph
	out               map[string]tensor.Datum
}

func (s *side) String() string {
	text := s.path + " on " + s.device.value
	if s.kernel.value != "auto" {
		text += ", " + s.kernel.value
	}
	if s.precision.value != "float32" {
		text += ", " + s.precision.value
	}
	return text
}

func (c *comparison) run(cmd *cobra.Command) error {
	if c.a.path == c.b.path && c.a.device.value == c.b.device.value && c.a.kernel.value == c.b.kernel.value &&
		c.a.precision.value == c.b.precision.value {
		return usagef(
			"%s: both runs are the same; give a second model, or --device, --kernel or --precision of one side, as "+
				"in --device-a", cmd.CommandPath())
	}
	for _, s := range []*side{&c.a, &c.b} {
		f := runFlags{device: s.device, precision: s.precision} // the fallback is of both
		if err := f.check(cmd); err != nil {
			return err
		}
	}
	if c.a.device.kind() != deviceCUDA {
		if err := checkFallback(cmd, &c.b.device, &c.fallback); err != nil {
			return err
		}
	}
	if len(c.inputs.specs) == 0 && !c.shape.given() {
		return usagef("%s: --input FILE is missing, or --shape BxL for random inputs", cmd.CommandPath())
	}
	for _, s := range []*side{&c.a, &c.b} {
		if err := s.open(cmd, c.shape.named); err != nil {
			return err
		}
	}
	shared := sharedValues(c.a.graph, c.b.graph)
	if c.values {
		if len(shared) == 0 {
			return fmt.Errorf("%s and %s: no intermediate value has the same name and type in both", c.a.path, c.b.path)
		}
		for _, s := range []*side{&c.a, &c.b} {
			s.graph = showing(s.graph, shared)
		}
	}
	pairs, err := pairOutputs(c.a.graph, c.b.graph, len(shared), c.values)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.a.path, c.b.path, err)
	}
	var in map[string]tensor.Datum
	for _, s := range []*side{&c.a, &c.b} {
		if in, err = c.compute(cmd, s, in); err != nil {
			return err
		}
	}
	return c.report(cmd, pairs)
}

// open reads the model, and the graph that the device runs.
func (s *side) open(cmd *cobra.Command, shapes []string) (err error) {
	if s.model, err = readModel(cmd, s.path, open.Options{Shapes: shapes}); err != nil {
		return err
	}
	if s.device.kind() == deviceRef {
		s.graph, err = busy(cmd, "compiling", s.model.Source)
	} else {
		s.graph, err = busy(cmd, "compiling", s.model.Graph)
	}
	return err
}

// compute runs one side. If the other side has run, its inputs are used: by name, or in order if the names differ.
func (c *comparison) compute(cmd *cobra.Command, s *side,
	first map[string]tensor.Datum) (map[string]tensor.Datum, error) {
	f := runFlags{device: s.device, kernel: s.kernel, precision: s.precision, threads: c.threads, fallback: c.fallback}
	o, err := f.options(cmd)
	if err != nil {
		return nil, err
	}
	model, err := runtime.New(s.graph, o)
	if err != nil {
		if !errors.Is(err, runtime.ErrOption) {
			err = fmt.Errorf("%s: %w", s.path, err)
		}
		return nil, err
	}
	defer model.Close()
	if s.device.kind() == deviceCPU {
		warnUnchanged(cmd, s.model, model, s.precision.value)
	}
	var in *feed.Inputs
	if first == nil {
		if in, err = c.firstInputs(cmd, model, s); err != nil {
			return nil, err
		}
	} else {
		in = &feed.Inputs{Data: renamed(first, &c.a, s)}
	}
	if s.out, err = compute(cmd, model, in); err != nil {
		return nil, fmt.Errorf("%v: %w", s, err)
	}
	return in.Data, nil
}

// firstInputs reads the inputs. If sizes are given, the missing ones are random.
func (c *comparison) firstInputs(cmd *cobra.Command, model *runtime.Model, s *side) (*feed.Inputs, error) {
	if !c.shape.given() {
		return c.inputs.read(cmd, model, model.Inputs(), false)
	}
	in, err := c.inputs.readSome(cmd, model, model.Inputs())
	if err != nil {
		return nil, err
	}
	dims, err := c.shape.dims(s.graph, s.model.Dims)
	if err == nil {
		in.Data, err = randomInputs(model, in.Data, dims)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return in, nil
}

// renamed returns a's inputs under b's names.
func renamed(in map[string]tensor.Datum, a, b *side) map[string]tensor.Datum {
	same := len(a.graph.Inputs) != len(b.graph.Inputs)
	for _, v := range a.graph.Inputs {
		same = same || b.graph.Input(v.Name) != nil
	}
	if same {
		return in
	}
	out := map[string]tensor.Datum{}
	for i, v := range a.graph.Inputs {
		if d, ok := in[v.Name]; ok {
			out[b.graph.Inputs[i].Name] = d
		}
	}
	return out
}

// sharedValues returns the names of the tensors that nodes of both graphs compute, in a's order, without outputs.
func sharedValues(a, b *ir.Graph) []string {
	inB := map[string]*ir.Value{}
	for _, n := range b.Nodes {
		for _, v := range n.Outputs {
			if v != nil {
				inB[v.Name] = v
			}
		}
	}
	isOutput := func(g *ir.Graph, v *ir.Value) bool { return slices.Contains(g.Outputs, v) }
	var out []string
	for _, n := range a.Nodes {
		for _, v := range n.Outputs {
			if v == nil || isOutput(a, v) {
				continue
			}
			w := inB[v.Name]
			_, isTensor := v.Type.(*ir.TensorType)
			if w != nil && isTensor && !isOutput(b, w) && ir.Compatible(v.Type, w.Type) {
				out = append(out, v.Name)
			}
		}
	}
	return out
}

// showing returns a copy of a graph with the named values as additional outputs, before its own.
func showing(g *ir.Graph, names []string) *ir.Graph {
	g = g.Clone()
	at := map[string]*ir.Value{}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			if v != nil {
				at[v.Name] = v
			}
		}
	}
	var more []*ir.Value
	for _, name := range names {
		more = append(more, at[name])
	}
	g.Outputs = append(more, g.Outputs...)
	return g
}

// pairOutputs returns the names of the outputs to compare. The first shared outputs are intermediate values, which are
// compared if values is set.
func pairOutputs(a, b *ir.Graph, shared int, values bool) (pairs [][2]string, err error) {
	if !values {
		shared = 0
	}
	inB := map[string]bool{}
	for _, v := range b.Outputs {
		inB[v.Name] = true
	}
	for i, v := range a.Outputs {
		if inB[v.Name] {
			pairs = append(pairs, [2]string{v.Name, v.Name})
		} else if i < shared {
			return nil, fmt.Errorf("value %q is not in both", v.Name)
		}
	}
	if len(pairs) > shared {
		return pairs, nil
	}
	if len(a.Outputs) != len(b.Outputs) {
		return nil, fmt.Errorf("expected outputs of the same names or number, found %s and %s",
			names(a.Outputs[shared:]), names(b.Outputs[shared:]))
	}
	for i := shared; i < len(a.Outputs); i++ {
		pairs = append(pairs, [2]string{a.Outputs[i].Name, b.Outputs[i].Name})
	}
	return pairs, nil
}

func names(values []*ir.Value) string {
	var out []string
	for _, v := range values {
		out = append(out, v.Name)
	}
	return list(out, 8)
}

// report prints a line per output, and the first value that differs by more than the tolerance.
func (c *comparison) report(cmd *cobra.Command, pairs [][2]string) error {
	say := func(format string, args ...any) {
		if !c.asJSON {
			cmd.Printf(format, args...)
		}
	}
	say("A  %v\nB  %v\n", &c.a, &c.b)
	r := compareReport{A: c.a.report(), B: c.b.report(), Tolerance: c.tol.value, Values: []compared{}}
	isOutput := func(name string) bool {
		g, err := c.a.model.Source()
		return err == nil && slices.ContainsFunc(g.Outputs, func(v *ir.Value) bool { return v.Name == name })
	}
	var first error
	values, beyond := 0, 0
	for _, p := range pairs {
		what := "value"
		if isOutput(p[0]) {
			what = "output"
		}
		d, text, ok, err := c.difference(p)
		if err != nil {
			return fmt.Errorf("%s %q: %w", what, p[0], err)
		}
		if what == "value" {
			values++
		}
		r.Values = append(r.Values, compared{Name: p[0], Other: p[1], Kind: what, OK: ok, Text: text, Difference: d})
		if !ok {
			beyond++
			if first == nil {
				first = fmt.Errorf("%s %q is the first that differs: %s", what, p[0], text)
				if what == "value" {
					say("%s %q differs: %s\n", what, p[0], text)
				}
			}
		}
		if what == "output" {
			name := p[0]
			if p[1] != name {
				name += " and " + p[1]
			}
			say("%s %s: %s\n", what, name, text)
		}
	}
	if c.values {
		say("%s compared; %d of all values and outputs differ by more than %v\n",
			plural(values, "intermediate value"), beyond, &c.tol)
	}
	if r.OK = beyond == 0; c.asJSON {
		if err := writeLine(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	}
	return first
}

// compareReport is what compare --json writes: the values in the order in which A computes them.
type compareReport struct {
	A         sideReport `json:"a"`
	B         sideReport `json:"b"`
	OK        bool       `json:"ok"`
	Tolerance float64    `json:"tolerance"`
	Values    []compared `json:"values"`
}

type sideReport struct {
	Model     string `json:"model"`
	Device    string `json:"device"`
	Kernel    string `json:"kernel"`
	Precision string `json:"precision"`
}

func (s *side) report() sideReport {
	return sideReport{s.path, s.device.value, s.kernel.value, s.precision.value}
}

// compared is one value of both. In Difference, found is A's and expected is B's.
type compared struct {
	Name       string            `json:"name"`
	Other      string            `json:"name_b"`
	Kind       string            `json:"kind"` // output or value
	OK         bool              `json:"ok"`
	Text       string            `json:"text"`
	Difference *differenceReport `json:"difference,omitempty"`
}

// difference describes the difference of two outputs, and reports whether it is within the tolerance.
func (c *comparison) difference(p [2]string) (diff *differenceReport, text string, ok bool, err error) {
	x, y := c.a.out[p[0]], c.b.out[p[1]]
	if x == nil && y == nil {
		return nil, "empty in both", true, nil
	}
	want, isTensor := y.(*tensor.Tensor)
	if !isTensor {
		return nil, fmt.Sprintf("%T cannot be compared", y), true, nil
	}
	if want.DType() == tensor.String || want.DType().IsComplex() {
		if got, isTensor := x.(*tensor.Tensor); isTensor && tensor.Equal(got, want) {
			return nil, "equal", true, nil
		}
		return nil, "not equal", false, nil
	}
	d, err := compare(x, want)
	if err != nil {
		return nil, "", false, err
	}
	report := d.report()
	if d.relative == 0 {
		return &report, "equal", true, nil
	}
	return &report, fmt.Sprintf("error %.3g of %.6g, at %s (A %.9g, B %.9g), tolerance %v", d.relative, d.scale, d.at,
		d.found, d.want, &c.tol), d.relative <= c.tol.value, nil
}
