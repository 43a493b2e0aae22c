package models

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models/config"
)

// Config is the content of a model's config.json: a pointer to a structure of its family.
type Config interface {
	// Type returns the model_type.
	Type() string
	// Settings returns the values by key: for reading, writing and changing the configuration.
	Settings() config.Settings
	// Validate checks every value, and the values against each other.
	Validate() error
	// Common returns the settings that all families have.
	Common() Common
	// Specs lists the tensors of a model with this configuration, in the order of the computation. Where sizes follow
	// from tensors, w has these; it may be nil.
	Specs(w Weights) ([]Spec, error)
	// Build adds the model to a builder, from weights that Check accepts. The graph's inputs and outputs have the names
	// of this package.
	Build(b *ir.Builder, w Weights, o BuildOptions) error
}

// Common is the settings that all families have.
type Common struct {
	SamplingRate int      // of the training data, in Hz; 0: not stated
	Labels       []string // class names in order; nil: none
	BatchDim     string   // the symbol of the batch; empty: B
	// Resamples says that step sizes can be multiplied (BuildOptions.Rate): no length in steps is part of the model.
	Resamples bool
	// Input names what a step of the input is: "tokens", "3 features".
	Input string
	// Layers, Width and Outputs are the number of layers, and of features between and after them.
	Layers, Width, Outputs int
	// Causal says that the answer at a step depends on no later step.
	Causal bool
	// Streams says that the model can also run chunk by chunk, with a state of fixed size.
	Streams bool
	// Details are further settings, for a line of text.
	Details []string
}

// Family is one kind of models: those with one model_type.
type Family struct {
	Type string // model_type
	Doc  string // a line for lists
	// New returns a configuration with all defaults, and no sizes.
	New func() Config
	// Presets lists published models of the family, untrained.
	Presets func() []Preset
	// Claims reports whether a configuration without model_type is the family's; nil: none is.
	Claims func(v *config.Value) bool
	// Flax describes checkpoints that flax wrote for the family's released code; nil: there are none.
	Flax *Checkpoint
}

// Checkpoint describes the files that a family's released code writes, and how their configuration is found.
type Checkpoint struct {
	// Code is the name of the code, and Tensor the name of a tensor by which its files are recognized.
	Code, Tensor string
	// Complete adds to the options of the code's command line what else belongs to a configuration, such as sizes. It
	// keeps the options that are there. The notes list what was assumed.
	Complete func(options *config.Value, w Weights) (notes []string, err error)
}

// Preset is a published model, untrained.
type Preset struct {
	ID     string
	Doc    string
	Config Config
	Length int // steps of the task's sequences
	// Init makes initial weights for training of the configuration, which may have changed. Equal seeds give equal
	// weights.
	Init func(c Config, seed uint64) (Weights, error)
}

var families = map[string]Family{}

// Register adds a family. Packages of families call it when they are initialized.
func Register(f Family) {
	if _, ok := families[f.Type]; ok {
		panic("models: two families of type " + f.Type)
	}
	families[f.Type] = f
}

// Families lists the families, sorted by type. Package models/families imports all of this project.
func Families() []Family {
	var all []Family
	for _, f := range families {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Family) int { return cmp.Compare(a.Type, b.Type) })
	return all
}

// Presets returns the presets of all families. Callers may change them.
func Presets() []Preset {
	var all []Preset
	for _, f := range Families() {
		if f.Presets != nil {
			all = append(all, f.Presets()...)
		}
	}
	return all
}

// CompleteFlax completes the options of a command line to a configuration of the family that recognizes a checkpoint
// of flax.
func CompleteFlax(options *config.Value, w Weights) (notes []string, err error) {
	known := slices.DeleteFunc(Families(), func(f Family) bool { return f.Flax == nil })
	slices.SortFunc(known, func(a, b Family) int { return cmp.Compare(a.Flax.Tensor, b.Flax.Tensor) })
	var expected []string
	for i, f := range known {
		if w[f.Flax.Tensor] != nil {
			options.Default("model_type", config.Value{Kind: config.String, Text: f.Type})
			return f.Flax.Complete(options, w)
		}
		name := f.Flax.Tensor
		if i > 0 {
			name = path.Ext(name)
		}
		expected = append(expected, fmt.Sprintf("%s (%s)", name, f.Flax.Code))
	}
	return nil, fmt.Errorf("expected tensor %s, found neither", strings.Join(expected, " or "))
}

// types lists the model types.
func types() []string {
	var all []string
	for _, f := range Families() {
		all = append(all, f.Type)
	}
	return all
}

// ParseConfig reads config.json of any family. name is the file's name in messages. Keys that model hubs add
// are ignored. Other unknown keys and duplicate keys are errors, and so is everything that Validate refuses.
func ParseConfig(data []byte, name string) (Config, error) {
	c, err := parse(data, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// Known reports whether an object of JSON is the configuration of a model: it has a model_type, of any family, or a
// family claims it.
func Known(v *config.Value) bool {
	if t := v.Get("model_type"); t != nil && t.Kind != config.Null {
		return true
	}
	for _, f := range families {
		if f.Claims != nil && f.Claims(v) {
			return true
		}
	}
	return false
}

// ConfigOf is ParseConfig for an object of JSON that is read already.
func ConfigOf(v *config.Value, name string) (Config, error) {
	c, err := configOf(v, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func parse(data []byte, name string) (Config, error) {
	v, err := config.Parse(data)
	if err != nil {
		return nil, err
	}
	return configOf(v, name)
}

func configOf(v *config.Value, name string) (Config, error) {
	known := types()
	expected := strings.Join(known, ", ")
	if len(known) > 1 {
		expected = "one of " + expected
	}
	t := v.Get("model_type")
	if t == nil || t.Kind == config.Null {
		for _, f := range Families() {
			if f.Claims != nil && f.Claims(v) {
				return read(f, v)
			}
		}
		return nil, fmt.Errorf("model_type: is missing, expected %s", expected)
	}
	f, ok := families[t.Text]
	if !ok || t.Kind != config.String {
		hint := exportHint(name)
		if near := spell.Close(t.Text, known); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near) + hint
		}
		return nil, fmt.Errorf("model_type: expected %s, found %s%s", expected, found(t), hint)
	}
	return read(f, v)
}

// exportHint is the advice for a model directory of a family that is not built in. name is the path of its config.json.
func exportHint(name string) string {
	dir := filepath.Dir(name)
	if filepath.Base(name) != "config.json" || dir == "." {
		dir = "DIR"
	}
	return fmt.Sprintf("; export other models to ONNX and give the .onnx file: optimum-cli export onnx --model %s "+
		"OUT, or torch.onnx.export in Python", config.Shorten(dir))
}

// read reads a configuration of a family, and checks it.
func read(f Family, v *config.Value) (Config, error) {
	c := f.New()
	if err := c.Settings().Read(v); err != nil {
		return nil, err
	}
	return c, c.Validate()
}

// Parameters returns the number of trained parameters: all numbers except running statistics.
func Parameters(c Config, w Weights) (int, error) {
	specs, err := c.Specs(w)
	n := 0
	for _, s := range specs {
		if !s.Statistic {
			n += s.Size()
		}
	}
	return n, err
}

// found describes a value that is no known type.
func found(v *config.Value) string {
	if v.Kind == config.String {
		return config.Shorten(v.Text)
	}
	return v.Describe()
}

// Plural returns a number of things: "1 head", "4 heads".
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
