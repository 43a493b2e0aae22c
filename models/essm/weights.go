package essm

import (
	"fmt"
	"strconv"

	"github.com/essmc/essmc/models"
)

// Specs lists the tensors of a model with this configuration, in the order of the computation. The tensors in w decide
// how many states a head has, and whether a layer has A in place of Lambda. Without them a head has d_state/heads
// states, and the layer Lambda.
func (c *Config) Specs(w models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var out []models.Spec
	add := func(name string, shape ...int) { out = append(out, models.Spec{Name: name, Shape: shape}) }
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
				out = append(out, models.Spec{Name: name + s, Shape: []int{d}, Statistic: true})
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

func (c *Config) decoderSpecs() []models.Spec {
	var out []models.Spec
	for _, l := range c.decoderLayers() {
		out = append(out, models.Spec{Name: l.name + ".weight", Shape: []int{l.outputs, l.inputs}},
			models.Spec{Name: l.name + ".bias", Shape: []int{l.outputs}})
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
func (c *Config) states(w models.Weights, i int) (n int, full bool, err error) {
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
