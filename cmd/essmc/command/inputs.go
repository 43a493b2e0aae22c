package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/feed"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// inputFlags are the flags for the inputs of a run.
type inputFlags struct {
	specs []string // [NAME=]FILE, or a value
	model string   // its path, beside which a tokenizer is expected
	image feed.Image
	text  textFlags
}

func (f *inputFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.specs, "input", "i", nil,
		"read an input: `[NAME=]FILE`, or a number or list; can be repeated")
	complete(cmd, "input", filesOf("npy", "npz", "csv", "wav", "png", "jpg", "jpeg", "json"))
	cmd.Flags().Var(&f.image.Resize, "resize",
		"resize images: to HxW; to N for the shorter side, then crop; or crop to the input's size; add ,bicubic for "+
			"that filter")
	complete(cmd, "resize", cobra.FixedCompletions([]string{"224x224", "256", "crop"},
		cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().Var(&f.image.Normalize, "normalize",
		"scale the pixels of images (default 0..1); none: 0 to 255")
	complete(cmd, "normalize", cobra.FixedCompletions([]string{"imagenet", "0..1", "-1..1", "none"},
		cobra.ShellCompDirectiveNoFileComp))
}

// files lists what may be files among the inputs.
func (f *inputFlags) files() []source {
	var list []source
	for _, s := range f.specs {
		_, after, _ := strings.Cut(s, "=")
		list = append(list, source{s, "an input"}, source{after, "an input"})
	}
	return list
}

// read reads the inputs for ports. In wide models float64 stands for float32.
func (f *inputFlags) read(cmd *cobra.Command, model *runtime.Model, ports []runtime.Port, wide bool) (*feed.Inputs,
	error) {
	return f.with(cmd, model, ports, wide, feed.Read)
}

// readSome is read without the check for missing inputs.
func (f *inputFlags) readSome(cmd *cobra.Command, model *runtime.Model, ports []runtime.Port) (*feed.Inputs, error) {
	return f.with(cmd, model, ports, false, feed.ReadSome)
}

func (f *inputFlags) with(cmd *cobra.Command, model *runtime.Model, ports []runtime.Port, wide bool,
	read feed.Reader) (*feed.Inputs, error) {
	for _, flag := range []string{"resize", "normalize"} {
		if changed(cmd, flag) && !feed.HaveImage(f.specs) {
			return nil, usagef("%s: --%s needs an image: --input FILE.png", cmd.CommandPath(), flag)
		}
	}
	given, err := f.text.inputs(cmd, f.model, ports)
	if err != nil {
		return nil, err
	}
	return read(cmd.Context(), f.specs, ports, feed.Options{Given: given, Wide: wide,
		Rate: feed.SamplingRate(model.Meta()), Image: &f.image, MaxBytes: maxMemory(cmd),
		Note: func(line string) { note(cmd, "%s", line) }})
}

// someInputs reads the inputs with files. Other required inputs are random.
func (f *inputFlags) someInputs(cmd *cobra.Command, model *runtime.Model,
	dims map[string]int64) (map[string]tensor.Datum, error) {
	given, err := f.readSome(cmd, model, model.Inputs())
	if err != nil {
		return nil, err
	}
	if err := checkRandom(cmd, model, given.Data, dims); err != nil {
		return nil, err
	}
	return randomInputs(model, given.Data, dims)
}
