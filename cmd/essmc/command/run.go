package command

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/feed"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
)

func newRunCommand() *cobra.Command {
	var f runFlags
	var inputs inputFlags
	var outputs []string
	var dump string
	var replace target
	top, chunk := whole{3, 1}, whole{0, 1}
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "run MODEL --input [NAME=]FILE … [--output [NAME=]FILE …]",
		Short:   "Compute a model's outputs",
		GroupID: groupRun,
		Long: `Run computes a model's outputs from its inputs.

NAME is optional if the model requires only one input, or has only one output. Models
of essmc have the inputs "input", "lengths" (optional: the number of valid steps of
each sequence) and, if they are causal, "state_in". Their outputs are "output" and
"state_out".

An input is one of these:
  .npy, .npz      an array; FILE.npz:KEY selects one of several
  .csv            a sequence with a row per step and a column per feature; tokens with a
                  row per sequence; or texts
  .png, .jpg, …   an image; --resize and --normalize fit it to the input
  .wav            a recording, for an input of one feature
  .json           any of the following values, or {"NAME":value,…} for several inputs
  3, [[1,2],[3,4]], '["a","b"]'
                  a number, a list, or texts
  {"age":41}      a map, or a list of maps with one row per map

Arrays of another element type are converted; a note says where values change. If the
configuration of a model directory states the sampling rate, the model is adapted to a
.wav file with another rate, as --resample does. Plans and ONNX files that state a rate
refuse other rates.

--text gives the texts of a language model: they become the inputs input_ids,
attention_mask and token_type_ids, by the tokenizer.json beside the model. @FILE has one
text per line. See also essmc tokenize.

Outputs are .npy, .npz or .csv. Without --output, run prints a summary of each output,
with class names if the model has them. --outputs y,z computes only the outputs y and
z, in less time if the model need not give its state. Inputs that only other outputs need
may be left out.

--stream N computes the same results in chunks of N steps, as a stream: it keeps the
model's state and not the sequence. The model must be causal. An ONNX model that takes
a sequence in chunks, and its state with each chunk, needs --state; outputs about a
chunk are concatenated along a new first dimension. See also essmc stream.

--device ref runs the graph of the source, node by node; --device cpu runs the graph
after the passes, and so does --device cuda, on an NVIDIA card (cuda:1: on the second;
essmc devices lists them). Models with an operator that has no kernel there are refused,
unless --fallback cpu lets the processor compute it. --dump also runs the graph of the
source on the interpreter, and writes every computed value to DIR/NAME.npy;
DIR/values.tsv lists values and files.`,
		Example: `  essmc run model.essm --input x.npy
  essmc run model --input input=x.npy --input lengths=n.npy --output y.npy
  essmc run speech.essm --input word.wav --top 5
  essmc run clinic.onnx --input '{"age":41,"height":1.7}'
  essmc run bert/model.onnx --text "State spaces are small." --text "So are states."
  essmc run model.essm --input x.npy --outputs output --output y.npy
  essmc run vad.onnx --input input=speech.wav --input state=zeros.npy --input sr=16000
  essmc run vad.onnx --input input=speech.wav --input sr=16000 --state state=stateN --stream 512
  essmc run model.essm --input x.npy --device cuda
  essmc run model --input x.npy --output y.npy --device ref --precision float64`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dump != "" {
				if changed(cmd, "device") && f.device.value != "ref" {
					return usagef("%s: --dump needs --device ref", cmd.CommandPath())
				}
				f.device.value = "ref"
				if chunk.value > 0 {
					return usagef("%s: --dump cannot be combined with --stream", cmd.CommandPath())
				}
			}
			if len(f.carry) > 0 && chunk.value == 0 {
				return usagef("%s: --state needs --stream CHUNK", cmd.CommandPath())
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			inputs.model = args[0]
			m, err := f.openFor(cmd, args[0], inputs.specs)
			if err != nil {
				return err
			}
			return runModel(cmd, &f, m, &inputs, outputs, dump, top.value, chunk.value, &replace, asJSON)
		},
	}
	modelCompletion(cmd)
	inputs.register(cmd)
	inputs.text.register(cmd)
	cmd.Flags().StringArrayVarP(&outputs, "output", "o", nil, "write an output: `[NAME=]FILE`; can be repeated")
	outputsVar(cmd, &f.outputs, "compute only these outputs: `NAMES` with commas (default: all)")
	f.register(cmd)
	f.registerExact(cmd)
	replace.register(cmd)
	cmd.Flags().Var(&chunk, "stream", "compute as a stream, in chunks of `CHUNK` steps")
	f.registerCarry(cmd)
	cmd.Flags().Var(&top, "top", "number of classes to show per sample")
	cmd.Flags().StringVar(&dump, "dump", "", "write all intermediate values to the new directory `DIR`")
	jsonVar(cmd, &asJSON, "write the outputs as one JSON object")
	complete(cmd, "output", filesOf("npy", "npz", "csv"))
	complete(cmd, "dump", directories)
	return cmd
}

func runModel(cmd *cobra.Command, f *runFlags, m *open.Model, inputs *inputFlags, outputs []string, dump string, top,
	chunk int, replace *target, asJSON bool) (err error) {
	o, err := f.options(cmd)
	if err != nil {
		return err
	}
	var d *dumper
	if dump != "" {
		if d, err = newDumper(dump); err != nil {
			return err
		}
		defer d.discard()
		o.Observe = d.value
	}
	if chunk > 0 {
		if err := keepGiven(m, inputs.specs); err != nil {
			return err
		}
	}
	model, err := f.compileModel(cmd, m, o)
	if err != nil {
		return err
	}
	defer model.Close()
	files, err := feed.Outputs(outputs, model.Outputs())
	if err != nil {
		return err
	}
	ports := model.Inputs()
	if chunk > 0 {
		ports = withoutStates(model)
	}
	in, err := inputs.read(cmd, model, ports, f.precision.value == "float64")
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := replace.check(file.File, arrayFile(file.File), m.Name,
			inputsExcept(in, model, file.Name)...); err != nil {
			return err
		}
	}
	if d != nil {
		d.inputs(in.Data)
	}
	var out map[string]tensor.Datum
	if chunk > 0 {
		out, err = computeChunks(cmd, model, in, chunk)
	} else {
		out, err = compute(cmd, model, in)
	}
	if err != nil {
		return err
	}
	if d != nil {
		n, err := d.keep()
		if err != nil {
			return err
		}
		if !asJSON {
			cmd.Printf("%d values in %s\n", n, dump)
		}
	}
	if len(files) == 0 && !asJSON {
		return summary(cmd.OutOrStdout(), model, out, top)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	for _, o := range files {
		if _, ok := out[o.Name]; !ok {
			return fmt.Errorf("output %q: is a state, which --stream does not write; use essmc stream --snapshot",
				o.Name)
		}
		if err := o.Write(out[o.Name]); err != nil {
			return err
		}
		if !asJSON {
			cmd.Printf("%s  %s  %s\n", o.File, o.Name, tensor.Describe(out[o.Name]))
		}
	}
	if asJSON {
		return writeLine(cmd.OutOrStdout(), runJSON(m.Name, f.device.value, model, out, files, top))
	}
	return nil
}

// runJSON describes the outputs of a run: those in files, or all.
func runJSON(name, device string, model *runtime.Model, out map[string]tensor.Datum, files []feed.Output,
	top int) *runReport {
	r := &runReport{Model: name, Device: device, Outputs: []outputReport{}}
	for _, p := range model.Outputs() {
		d, ok := out[p.Name]
		i := slices.IndexFunc(files, func(o feed.Output) bool { return o.Name == p.Name })
		if !ok || len(files) > 0 && i < 0 {
			continue
		}
		o := outputJSON(p.Name, d)
		o.Top = topClasses(model, p.Name, d, top)
		if i >= 0 {
			o.File, o.Data = files[i].File, nil
		}
		r.Outputs = append(r.Outputs, o)
	}
	return r
}

// inputsExcept lists the files of the inputs, but for the state whose next value is the output.
func inputsExcept(in *feed.Inputs, model *runtime.Model, output string) []source {
	own := map[string]bool{models.StateIn: output == models.StateOut}
	for _, key := range []string{ir.MetaState, ir.MetaCarry} {
		pairs, err := stepgraph.Pairs(model.Graph(), key)
		if err != nil {
			continue // only streams need them
		}
		for _, p := range pairs {
			own[p.In] = own[p.In] || p.Out == output
		}
	}
	var list []source
	files := in.Files()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !own[name] {
			list = append(list, source{files[name], fmt.Sprintf("input %q", name)})
		}
	}
	return list
}

// withAxes adds advice to an error about an input of which one axis is at another place: channels first or last.
func withAxes(model *runtime.Model, in *feed.Inputs, err error) error {
	var bad *runtime.InputError
	if !errors.As(err, &bad) {
		return err
	}
	x, ok := in.Data[bad.Name].(*tensor.Tensor)
	i := slices.IndexFunc(model.Inputs(), func(p runtime.Port) bool { return p.Name == bad.Name })
	if !ok || i < 0 {
		return err
	}
	t, ok := ir.AsTensor(model.Inputs()[i].Type)
	if !ok || t.NoRank || len(t.Shape) != x.Rank() || x.Rank() < 3 {
		return err
	}
	fits := func(order []int) bool {
		for i, d := range t.Shape {
			if n, known := d.Known(); known && n != int64(x.Dim(order[i])) {
				return false
			}
		}
		return true
	}
	last := x.Rank() - 1
	first, end := []int{0, last}, []int{0}
	for axis := 1; axis < last; axis++ {
		first, end = append(first, axis), append(end, axis+1)
	}
	end = append(end, 1)
	for _, order := range [][]int{first, end} {
		if fits(order) {
			return fmt.Errorf("%w; the axes are probably in another order: x.transpose(%s) in numpy", err,
				strings.Trim(strings.ReplaceAll(fmt.Sprint(order), " ", ", "), "[]"))
		}
	}
	return err
}

// compute runs the model once.
func compute(cmd *cobra.Command, model *runtime.Model, in *feed.Inputs) (map[string]tensor.Datum, error) {
	done := spin(cmd, "running")
	defer done()
	s := model.NewSession()
	defer s.Close()
	out, err := s.Run(cmd.Context(), in.Data)
	if err != nil {
		return nil, withAxes(model, in, in.Locate(err))
	}
	for _, p := range model.Outputs() {
		if out[p.Name] == nil && !p.Optional {
			return nil, fmt.Errorf("output %q was not computed", p.Name)
		}
	}
	return out, nil
}
