package models

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/ir/tensor"
)

// Weights maps the names of a model's tensors in checkpoints (docs/math.md, Model directory) to the tensors.
type Weights map[string]*tensor.Tensor

// Spec describes one tensor of a model: float32 of this shape.
type Spec struct {
	Name  string
	Shape []int
	// Statistic marks tensors without a gradient: the running statistics of batch norms.
	Statistic bool
}

// Size returns the number of elements.
func (s Spec) Size() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// Specs lists the tensors of a model with this configuration, in the order of the computation. The tensors in w decide
// how many states a head has, and whether a layer has A in place of Lambda. Without them a head has d_state/heads states,
// and the layer Lambda.
func (c *Config) Specs(w Weights) ([]Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var out []Spec
	add := func(name string, shape ...int) { out = append(out, Spec{Name: name, Shape: shape}) }
	linear := func(name string, outputs, inputs int) {
		add(name+".weight", outputs, inputs)
		add(name+".bias", outputs)
	}
	d, l := c.DModel, c.Layer
	norm := func(name string) {
		switch c.Norm {
		case "batch":
			add(name+".weight", d)
			add(name+".bias", d)
			for _, s := range []string{".running_mean", ".running_var"} {
				out = append(out, Spec{name + s, []int{d}, true})
			}
		case "layer":
			add(name+".weight", d)
			add(name+".bias", d)
		case "layer_scalar":
			add(name+".m", 1)
			add(name+".s", 1)
		}
	}
	glu := func(kind, prefix, suffix string) {
		if kind == "full_glu" {
			linear(prefix+"out1"+suffix, d, d)
		}
		if kind == "full_glu" || kind == "half_glu1" || kind == "half_glu2" {
			linear(prefix+"out2"+suffix, d, d)
		}
	}
	switch c.Encoder.Type {
	case "linear":
		linear("encoder", d, c.Encoder.DInput)
	case "embedding":
		add("encoder.weight", c.Encoder.VocabSize, d)
	}
	ch, s, h := l.Channels, l.Heads, d/l.Heads
	for i := range c.NLayers {
		prefix := layerName(i) + ".layer."
		n, full, err := c.states(w, i)
		if err != nil {
			return nil, err
		}
		if full || l.Dt == "shared" {
			add(prefix+"log_dt", ch, s, 1)
		} else {
			add(prefix+"log_dt", ch, s, n)
		}
		if full {
			add(prefix+"A", ch, s, n, n)
		} else {
			add(prefix+"Lambda", ch, s, n, 2)
		}
		add(prefix+"B", ch, s, n, h)
		add(prefix+"C", ch, s, h, n)
		switch l.D {
		case "diagonal":
			add(prefix+"D", ch, s, h)
		case "full":
			add(prefix+"D", ch, s, h, h)
		}
		glu(l.Activation, prefix, "")
		if s > 1 {
			linear(prefix+"head_mixer", d, d)
		}
		if ch > 1 {
			linear(prefix+"channel_mixer", d, ch*d)
		}
		glu(l.PostActivation, prefix, "_post")
		norm(layerName(i) + ".norm.norm")
	}
	if c.Prenorm {
		norm("model.norm.norm")
	}
	out = append(out, c.decoderSpecs()...)
	return out, nil
}

func (c *Config) decoderSpecs() []Spec {
	var out []Spec
	for _, l := range c.decoderLayers() {
		out = append(out, Spec{Name: l.name + ".weight", Shape: []int{l.outputs, l.inputs}},
			Spec{Name: l.name + ".bias", Shape: []int{l.outputs}})
	}
	return out
}

// dense is a linear layer of the decoder.
type dense struct {
	name            string
	outputs, inputs int
}

// decoderLayers lists the decoder's linear layers, with its activation in between.
func (c *Config) decoderLayers() []dense {
	d, k := c.DModel, c.Decoder.DOutput
	if c.Decoder.Type == "sequence" {
		return []dense{{"decoder.output_transform", k, d}}
	}
	name := func(i int) string { return "decoder.retrieval.classifier." + strconv.Itoa(2*i) }
	if c.Decoder.NLI {
		return []dense{{name(0), d, 4 * d}, {name(1), k, d}}
	}
	return []dense{{name(0), d, 2 * d}, {name(1), d / 2, d}, {name(2), k, d / 2}}
}

func layerName(i int) string { return "model.layers." + strconv.Itoa(i) }

// states returns the number of states of a head of layer i, and whether the layer has a full A.
func (c *Config) states(w Weights, i int) (n int, full bool, err error) {
	prefix := layerName(i) + ".layer."
	full = w[prefix+"A"] != nil && w[prefix+"Lambda"] == nil
	for _, t := range []struct {
		name string
		axis int
	}{{"Lambda", 2}, {"A", 2}, {"B", 2}, {"C", 3}} {
		if x := w[prefix+t.name]; x != nil && x.Rank() == 4 && x.Dim(t.axis) > 0 {
			if k := x.Dim(t.axis); k <= maxSize {
				return k, full, nil
			}
		}
	}
	n = c.Layer.DState / c.Layer.Heads
	if n*c.Layer.Heads != c.Layer.DState {
		return 0, false, fmt.Errorf("layer.d_state: expected a multiple of layer.heads %d, found %d", c.Layer.Heads,
			c.Layer.DState)
	}
	return n, full, nil
}

// Parameters returns the number of trained parameters: all numbers except running statistics.
func (c *Config) Parameters(w Weights) (int, error) {
	specs, err := c.Specs(w)
	n := 0
	for _, s := range specs {
		if !s.Statistic {
			n += s.Size()
		}
	}
	return n, err
}

// maxHints bounds the names that Check compares to a missing one.
const maxHints = 64

// Check compares the tensors with the configuration: all that it needs and no others, float32, of the right shapes and
// with finite numbers. The error names the first tensor at fault and the number of others.
func Check(c *Config, w Weights) error {
	specs, err := c.Specs(w)
	if err != nil {
		return err
	}
	var faults []string
	fault := func(name, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("tensor %s: ", shorten(name))+fmt.Sprintf(format, args...))
	}
	known := map[string]bool{}
	for _, s := range specs {
		known[s.Name] = true
	}
	var extra []string
	for name := range w {
		if !known[name] && !strings.HasSuffix(name, ".num_batches_tracked") {
			extra = append(extra, name)
		}
	}
	slices.Sort(extra)
	for _, s := range specs {
		want := "float32" + tensor.ShapeString(s.Shape)
		t := w[s.Name]
		switch {
		case t == nil:
			hint := ""
			if near := spell.Nearest(s.Name, extra[:min(len(extra), maxHints)]); near != "" &&
				spell.Distance(s.Name, near) < 4 {
				hint = "; there is " + shorten(near)
			}
			fault(s.Name, "is missing, expected %s%s", want, hint)
		case t.DType() != tensor.Float32 || !slices.Equal(t.Shape(), s.Shape):
			fault(s.Name, "expected %s, found %v", want, t)
		default:
			if at, why := badValue(s, tensor.Data[float32](t)); at >= 0 {
				fault(s.Name+indexString(s.Shape, at), "expected %s, found %v", why, tensor.Data[float32](t)[at])
			}
		}
	}
	for _, name := range extra {
		fault(name, "is not part of the model")
	}
	switch len(faults) {
	case 0:
		return nil
	case 1:
		return errors.New(faults[0])
	}
	return fmt.Errorf("%s (and %d more)", faults[0], len(faults)-1)
}

// badValue returns the index of an element that is not allowed, or -1 if there is none.
func badValue(s Spec, v []float32) (at int, want string) {
	variance := strings.HasSuffix(s.Name, ".running_var")
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return i, "a finite number"
		}
		if variance && x < 0 {
			return i, "a variance of at least 0"
		}
	}
	return -1, ""
}

// indexString returns the index of element at as "[0,3]".
func indexString(shape []int, at int) string {
	index := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i], at = at%shape[i], at/shape[i]
	}
	return tensor.ShapeString(index)
}
