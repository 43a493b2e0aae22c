package command

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// choice is a flag with a fixed set of values.
type choice struct {
	value string
	of    []string
	meant map[string]string // what may be typed in place of a value, with the end of the error for it
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }
func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		meant := didYouMean(s, c.of)
		if other, ok := c.meant[strings.ToLower(s)]; ok && slices.Contains(c.of,
			strings.TrimSuffix(strings.Fields(other)[0], "?")) {
			meant = ", did you mean " + other
		}
		return fmt.Errorf("expected one of %s%s", strings.Join(c.of, ", "), meant)
	}
	c.value = s
	return nil
}

// choiceVar adds a flag with a fixed set of values, which shells complete. The first one is the default.
func choiceVar(cmd *cobra.Command, c *choice, name, usage string, of ...string) {
	c.value, c.of = of[0], of
	cmd.Flags().Var(c, name, usage)
	complete(cmd, name, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp))
}

// complete sets the completion of a flag. It panics if the flag does not exist, which is a bug of this program.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// whole is a flag for an integer with a lower bound.
type whole struct{ value, least int }

func (n *whole) String() string { return strconv.Itoa(n.value) }
func (n *whole) Type() string   { return "N" }
func (n *whole) Set(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil || v < n.least {
		return fmt.Errorf("expected an integer of at least %d", n.least)
	}
	n.value = v
	return nil
}

// positive is a flag for a number above 0.
type positive struct {
	value float64
	name  string
}

func (p *positive) String() string { return strconv.FormatFloat(p.value, 'g', -1, 64) }
func (p *positive) Type() string   { return p.name }
func (p *positive) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return fmt.Errorf("expected a number above 0")
	}
	p.value = v
	return nil
}

// maxSteps is larger than the memory of any machine, and small enough that sizes computed from it stay in range.
const maxSteps = 1 << 40

// shape is a flag for the sizes of inputs: samples x steps, and NAME=DIM,… for inputs and dimensions by name. It may be
// repeated.
type shape struct {
	batch, length int64
	named         []string
}

func (s *shape) String() string {
	var parts []string
	switch {
	case s.batch > 0 && s.length == 0:
		parts = append(parts, plural(int(s.batch), "sample"))
	case s.batch > 0:
		parts = append(parts, fmt.Sprintf("%dx%d", s.batch, s.length))
	}
	return strings.Join(append(parts, s.named...), " ")
}
func (s *shape) Type() string { return "BxL|NAME=DIMS" }
func (s *shape) Set(text string) error {
	if strings.Contains(text, "=") {
		err := open.CheckShape(text)
		if err == nil {
			s.named = append(s.named, text)
		}
		return err
	}
	b, l, ok := strings.Cut(strings.ToLower(strings.ReplaceAll(text, "×", "x")), "x")
	batch, errB := strconv.ParseInt(b, 10, 32)
	length, errL := strconv.ParseInt(l, 10, 32)
	if ok && (errors.Is(errB, strconv.ErrRange) || errors.Is(errL, strconv.ErrRange)) {
		return fmt.Errorf("expected at most %d samples and %d steps", math.MaxInt32, math.MaxInt32)
	}
	if !ok || errB != nil || errL != nil || batch < 1 || length < 1 {
		return fmt.Errorf("expected samples x steps, as in 8x1024, or NAME=DIM,…, as in input=8,1024,3")
	}
	if batch > maxSteps/length {
		return fmt.Errorf("expected at most %d steps in all samples together", int64(maxSteps))
	}
	s.batch, s.length = batch, length
	return nil
}

func (s *shape) given() bool { return s.batch > 0 || len(s.named) > 0 }

// missingSymbols returns the symbols of the graph's inputs that dims lacks, sorted.
func missingSymbols(g *ir.Graph, dims map[string]int64) []string {
	return slices.Sorted(slices.Values(slices.DeleteFunc(g.Symbols(), func(name string) bool {
		_, ok := dims[name]
		return ok
	})))
}

// roles returns the missing symbols that are the batch and the time. Either may be "".
func roles(g *ir.Graph, missing []string) (batch, time string) {
	symbols := slices.DeleteFunc(g.Symbols(), func(name string) bool { return !slices.Contains(missing, name) })
	batch, time = g.Meta[ir.MetaBatch], g.Meta[ir.MetaTime]
	if batch == "" && symbols[0] != time {
		batch = symbols[0]
	}
	if time == "" && len(symbols) > 1 && symbols[1] != batch {
		time = symbols[1]
	}
	if !slices.Contains(symbols, time) {
		time = ""
	}
	return batch, time
}

// dims returns the values of the symbols of the graph's inputs for the shape. Symbols in bound keep their values. Axis
// 0 of the inputs is the batch, and the time symbol is the number of steps. In graphs that declare neither, these are
// the first dimensions of the first input, in order.
func (s *shape) dims(g *ir.Graph, bound map[string]int64) (map[string]int64, error) {
	dims := map[string]int64{}
	maps.Copy(dims, bound)
	missing := missingSymbols(g, bound)
	if len(missing) == 0 {
		if s.batch > 0 && len(bound) == 0 {
			return nil, fmt.Errorf("shape %dx%d: the sizes of the model's inputs are fixed", s.batch, s.length)
		}
		return dims, nil
	}
	if s.batch == 0 {
		return nil, fmt.Errorf("shape %v: %s of the model's inputs is missing; give it by --shape %s=N", s,
			strings.Join(missing, ", "), missing[0])
	}
	batch, time := roles(g, missing)
	if time == "" && s.length > 0 {
		return nil, fmt.Errorf(
			"shape %dx%d: the model's inputs have no variable time dimension; give sizes by --shape %s=N", s.batch,
			s.length, missing[0])
	}
	for _, name := range missing {
		switch name {
		case time:
			dims[name] = s.length
		case batch:
			per := samplesPer(g, batch)
			if s.batch%per != 0 {
				return nil, fmt.Errorf("shape %dx%d: the model takes samples in groups of %d, found %d", s.batch,
					s.length, per, s.batch)
			}
			dims[name] = s.batch / per
		default:
			return nil, fmt.Errorf(
				"shape %dx%d: the model's inputs also depend on %s, which is neither batch nor time; give it by "+
					"--shape %s=N", s.batch, s.length, name, name)
		}
	}
	return dims, nil
}

// namedShapes is a flag for the sizes of inputs by name, for commands that read inputs from arrays.
type namedShapes struct{ list []string }

func (s *namedShapes) String() string { return (&shape{named: s.list}).String() }
func (s *namedShapes) Type() string   { return "NAME=DIMS" }
func (s *namedShapes) Set(text string) error {
	err := open.CheckShape(text)
	if err == nil {
		s.list = append(s.list, text)
	}
	return err
}

// samplesPer returns the number of samples of an input per unit of the batch symbol: 2 for pairs of documents.
func samplesPer(g *ir.Graph, batch string) int64 {
	for _, v := range g.Inputs {
		for _, d := range v.Shape() {
			if syms := d.Symbols(); len(syms) == 1 && syms[0] == batch {
				zero, err0 := d.Eval(map[string]int64{batch: 0})
				one, err1 := d.Eval(map[string]int64{batch: 1})
				if err0 == nil && err1 == nil && zero == 0 && one > 0 {
					return one
				}
			}
		}
	}
	return 1
}

// sourceFlags are the flags for reading a model, before the passes. They do not apply to plans.
type sourceFlags struct {
	bounds
	resample positive
	shapes   namedShapes
	carry    carry
	skip     []string
	// parameters are patterns of names.
	parameters []string
}

func (f *sourceFlags) registerResample(cmd *cobra.Command) {
	f.resample = positive{1, "R"}
	cmd.Flags().Var(&f.resample, "resample",
		"multiply every step size by R: 2 for input of half the model's sampling rate")
}

func (f *sourceFlags) registerShapes(cmd *cobra.Command) {
	cmd.Flags().Var(&f.shapes, "shape",
		"fix dimensions before the passes: of an input (x=1,L,64), or of a name (L=1024); can be repeated")
}

func (f *sourceFlags) registerCarry(cmd *cobra.Command) {
	cmd.Flags().Var(&f.carry, "state",
		"for models that take chunks: input IN is the state, and output OUT its next value; can be repeated")
}

func (f *sourceFlags) registerSkip(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.skip, "skip", nil, "leave out `PASSES`, with commas: integers computes quantized "+
		"operators on float32, as the file states them; essmc explain names the passes")
	complete(cmd, "skip", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return open.PassNames(optionsOf(cmd).Passes...), cobra.ShellCompDirectiveNoFileComp
	})
}

func (f *sourceFlags) registerParameters(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.parameters, "parameters", nil,
		"let the content of the weights be replaced whose names match `PATTERN`: '*' for all, 'layers.0.*', or a "+
			"name; can be repeated")
	complete(cmd, "parameters", cobra.NoFileCompletions)
}

// open reads the model with the flags.
func (f *sourceFlags) open(cmd *cobra.Command, path string) (*open.Model, error) {
	if err := f.checkFile(path); err != nil {
		return nil, err
	}
	o := open.Options{Rate: f.resample.value, Shapes: f.shapes.list, Carry: f.carry, Skip: f.skip,
		Parameters: f.parameters, Limits: f.limits()}
	m, err := readModel(cmd, path, o)
	var wrong *open.OptionError
	switch {
	case errors.As(err, &wrong) && wrong.Option == "Rate":
		return nil, noRate(path, wrong.Kind)
	case err != nil:
		return nil, wrongSource(path, err)
	case changed(cmd, "resample") && m.Kind != open.Directory:
		return nil, noRate(path, m.Kind)
	}
	if len(o.Carry) > 0 && m.Kind == open.Plan {
		return nil, usagef("%s: --state: the states of a plan are fixed; use essmc compile --state on the model", path)
	}
	if len(o.Shapes) > 0 && m.Kind == open.Plan {
		if _, fixes := cmd.Flags().Lookup("shape").Value.(*namedShapes); fixes {
			return nil, usagef(
				"%s: --shape: the dimensions of a plan are fixed; use essmc compile --shape on the model", path)
		}
	}
	return m, nil
}

// wrongSource makes a usage error of passes that cannot be left out, and of weights that cannot be parameters. Other
// errors stay.
func wrongSource(path string, err error) error {
	var wrong *open.OptionError
	switch {
	case !errors.As(err, &wrong) || wrong.Option != "Skip" && wrong.Option != "Parameters":
		return err
	case wrong.Option == "Parameters" && wrong.Kind == open.Plan:
		return usagef("%s: --parameters: the parameters of a plan are fixed; use essmc compile --parameters on the "+
			"model", path)
	case wrong.Option == "Parameters" && wrong.Value != "":
		return usagef("%s: --parameters: %s: %v", path, wrong.Value, wrong.Err)
	case wrong.Option == "Parameters":
		return usagef("%s: --parameters: %v", path, wrong.Err)
	case wrong.Kind == open.Plan:
		return usagef("%s: --skip: the passes of a plan have run; use essmc compile --skip on the model", path)
	}
	return usagef("%s: --skip: %s: %v", path, wrong.Value, wrong.Err)
}

// noRate returns the reason why a model that is not a directory has no --resample.
func noRate(path string, kind open.Kind) error {
	if kind == open.Plan {
		return usagef(
			"%s: --resample: the sampling rate of a plan is fixed; use essmc compile --resample on the model directory",
			path)
	}
	return usagef("%s: --resample needs a model directory, found %v", path, kind)
}

func changed(cmd *cobra.Command, flag string) bool {
	f := cmd.Flags().Lookup(flag)
	return f != nil && f.Changed
}

// runFlags are the flags of commands that run a model.
type runFlags struct {
	sourceFlags
	kernel, precision, fallback choice
	device                      device
	threads                     whole
	outputs                     []string
}

func (f *runFlags) register(cmd *cobra.Command) {
	choiceVar(cmd, &f.kernel, "kernel", "form of state-space layers", runtime.Kernels()...)
	f.threads = whole{0, 0}
	cmd.Flags().Var(&f.threads, "threads", "number of threads; 0: all processors")
	deviceVar(cmd, &f.device, "device", deviceUsage)
	fallbackVar(cmd, &f.fallback)
	f.registerBounds(cmd)
}

// outputsVar adds the flag for the outputs to compute.
func outputsVar(cmd *cobra.Command, v *[]string, usage string) {
	cmd.Flags().StringSliceVar(v, "outputs", nil, usage)
	complete(cmd, "outputs", cobra.NoFileCompletions)
}

// wrongOutputs makes a usage error of names in --outputs that the model does not have.
func wrongOutputs(cmd *cobra.Command, err error) error {
	var o *runtime.OptionError
	if errors.As(err, &o) && o.Option == "Outputs" {
		return usagef("%s: --outputs: %s", cmd.CommandPath(), o.Msg)
	}
	return err
}

const lowUsage = "bf16, int8 and tf32 round the operands of dense products; bf16 is faster only on cards and on " +
	"processors with AVX512_BF16; tf32 needs --device cuda"

// otherPrecisions are the names that other programs have for values of --precision.
var otherPrecisions = map[string]string{
	"fp16": halfMeant, "float16": halfMeant, "half": halfMeant, "f16": halfMeant, "16": halfMeant,
	"bfloat16": "bf16?", "bfp16": "bf16?", "fp32": "float32?", "f32": "float32?", "single": "float32?",
	"32":    "float32?",
	"float": "float32?", "fp64": "float64?", "f64": "float64?", "double": "float64?", "64": "float64?", "i8": "int8?",
	"q8":        "int8?",
	"quantized": "int8?", "tfloat32": "tf32?", "tf": "tf32?",
}

// halfMeant has the reason why there is no float16: its largest number is 65504.
const halfMeant = "bf16? It has the size of float16 and the range of float32, so that large values stay finite"

// registerLow adds the flag for the precision of products.
func (f *runFlags) registerLow(cmd *cobra.Command) {
	choiceVar(cmd, &f.precision, "precision", lowUsage, "float32", "bf16", "int8", "tf32")
	f.precision.meant = otherPrecisions
}

// registerExact adds the flags that change the model, and the precision of everything.
func (f *runFlags) registerExact(cmd *cobra.Command) {
	choiceVar(cmd, &f.precision, "precision", "float64 computes in double precision with --device ref; "+lowUsage,
		"float32", "float64", "bf16", "int8", "tf32")
	f.precision.meant = otherPrecisions
	f.registerResample(cmd)
	f.registerShapes(cmd)
	f.registerSkip(cmd)
}

// check refuses invalid combinations before any file is opened.
func (f *runFlags) check(cmd *cobra.Command) error {
	kind := f.device.kind()
	if f.precision.value == "float64" && kind != deviceRef {
		return usagef("%s: --precision float64 needs --device ref", cmd.CommandPath())
	}
	if p := f.precision.value; p == "bf16" && kind == deviceRef || p == "int8" && kind != deviceCPU {
		return usagef("%s: --precision %s needs --device cpu", cmd.CommandPath(), p)
	}
	if f.precision.value == tf32 && kind != deviceCUDA {
		return usagef("%s: --precision %s needs --device cuda", cmd.CommandPath(), tf32)
	}
	return checkFallback(cmd, &f.device, &f.fallback)
}

// checkFallback refuses a fallback for devices that run all operators.
func checkFallback(cmd *cobra.Command, d *device, fallback *choice) error {
	if fallback.value == deviceCPU && d.kind() != deviceCUDA {
		return usagef("%s: --fallback cpu needs --device cuda", cmd.CommandPath())
	}
	return nil
}

// compiled reads the model and prepares it to run on the inputs.
func (f *runFlags) compiled(cmd *cobra.Command, path string, inputs []string) (*runtime.Model, error) {
	if err := f.check(cmd); err != nil {
		return nil, err
	}
	m, err := f.openFor(cmd, path, inputs)
	if err != nil {
		return nil, err
	}
	o, err := f.options(cmd)
	if err != nil {
		return nil, err
	}
	return f.compileModel(cmd, m, o)
}

// tf32 is the precision of Options.TF32.
const tf32 = "tf32"

// precisions maps values of --precision to types. Other values need no option, or another one.
var precisions = map[string]tensor.DType{"float64": tensor.Float64, "bf16": tensor.BFloat16, "int8": tensor.Int8}

// options returns the options of the runtime.
func (f *runFlags) options(cmd *cobra.Command) (o runtime.Options, err error) {
	o = runtime.Options{Threads: f.threads.value, Kernel: f.kernel.value, MaxMemory: ram.Total(),
		Context: cmd.Context()}
	o.Precision, o.TF32, o.Outputs = precisions[f.precision.value], f.precision.value == tf32, f.outputs
	o.Backend, err = f.device.backend(f.fallback.value, func() []cpu.Option { return tunedOptions(cmd) })
	return o, err
}

// compileModel prepares a model to run: the source graph on the interpreter, and the graph after the passes on other
// backends.
func (f *runFlags) compileModel(cmd *cobra.Command, m *open.Model, o runtime.Options) (*runtime.Model, error) {
	left, err := f.left(m)
	if err != nil {
		return nil, err
	}
	o.MaxMemory, o.Copy = left, ownCopy(m)
	compiling := true
	o.Logger = slog.New(onWarning(func(message string) {
		if !compiling { // those of passes are written below, those of shapes before the first run
			warn(cmd, "%s", message)
		}
	}))
	compile := m.Compile
	if f.device.kind() == deviceRef {
		compile = m.CompileSource
	}
	model, err := busy(cmd, "compiling", func() (*runtime.Model, error) { return compile(o) })
	if err != nil || f.device.kind() == deviceRef {
		return model, wrongOutputs(cmd, err)
	}
	if m.Kind != open.Plan { // warnings of a plan were printed when it was compiled
		for _, w := range m.Warnings() {
			warn(cmd, "%s", w)
		}
	}
	if !o.Profile && f.device.kind() == deviceCPU { // with Profile a second time, of the same model
		warnUnchanged(cmd, m, model, f.precision.value)
		compiling = false
	}
	return model, nil
}

// maxCopy is the size up to which plans are read into memory. A mapped plan that someone truncates ends the process. A
// copy costs a few milliseconds, little beside the checksum of the same bytes. Larger plans are mapped, so that
// processes share their memory.
const maxCopy = 64 << 20

// ownCopy reports whether the model is a plan to be read into memory.
func ownCopy(m *open.Model) bool {
	if m.Kind != open.Plan {
		return false
	}
	st, err := files.Stat(m.Name)
	return err == nil && st.Size() <= maxCopy
}

// carry is a flag that maps inputs for a state to outputs with its next value. It may be repeated.
type carry map[string]string

func (c *carry) String() string {
	var pairs []string
	for _, in := range slices.Sorted(maps.Keys(*c)) {
		pairs = append(pairs, in+"="+(*c)[in])
	}
	return strings.Join(pairs, " ")
}
func (c *carry) Type() string { return "IN=OUT" }
func (c *carry) Set(text string) error {
	in, out, ok := strings.Cut(text, "=")
	if !ok || in == "" || out == "" {
		return fmt.Errorf("expected INPUT=OUTPUT, as in state=stateN")
	}
	if old, twice := (*c)[in]; twice && old != out {
		return fmt.Errorf("input %q already takes output %q", in, old)
	}
	if *c == nil {
		*c = carry{}
	}
	(*c)[in] = out
	return nil
}

var _ = []pflag.Value{(*carry)(nil), (*choice)(nil), (*whole)(nil), (*positive)(nil), (*shape)(nil),
	(*namedShapes)(nil)}
