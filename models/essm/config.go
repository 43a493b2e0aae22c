package essm

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// Config is the content of config.json (docs/math.md, Model directory). Make one with ParseConfig, NewPreset or
// Default.
type Config struct {
	ModelType string // Type
	// SamplingRate is that of the training data, in Hz; 0: not stated.
	SamplingRate int
	Encoder      Encoder
	DModel       int
	NLayers      int
	Prenorm      bool   // the norm is before the layer, in the residual branch; otherwise after the sum
	Norm         string // one of Norms
	Layer        Layer
	Decoder      Decoder
	ID2Label     []string // class names in order; nil: none
}

// Encoder maps the input to d_model features.
type Encoder struct {
	Type      string // one of EncoderTypes
	DInput    int    // features of a step, with linear
	VocabSize int    // tokens, with embedding
}

// Layer holds the settings of all state-space layers of a model.
type Layer struct {
	Heads           int
	DState          int // states of all heads together; the tensors decide how many a head has
	Channels        int
	Bidirectional   bool
	ConjSym         bool
	Discretization  string // one of essm.Methods
	LambdaReal      string // one of essm.RealConstraints
	MaxRealLambda   float64
	LambdaImag      string // one of essm.ImagConstraints
	Dt              string // per_state, shared
	D               string // none, diagonal, full
	Activation      string // one of Activations, or empty
	PostActivation  string // one of Activations, or empty
	MaxKernelLength int    // lags of the kernel; 0: all
}

// Decoder maps the last layer's sequence to the answer.
type Decoder struct {
	Type       string // one of DecoderTypes
	Mode       string // one of Modes
	NLI        bool   // retrieval: features include difference and product of both documents
	Activation string // retrieval: gelu, relu
	DOutput    int
	UseLengths bool
}

// maxSize bounds every size in a configuration, maxFeatures the features of one step inside a layer, and maxLayers the
// layers. They are far above any model in use, and products of two do not overflow.
const (
	maxSize     = 1 << 20
	maxVocab    = 1 << 26
	maxLayers   = 1 << 12
	maxFeatures = 1 << 24
	maxRate     = 1 << 24 // Hz
)

// Default returns a configuration with all defaults (docs/math.md, Model directory), and no sizes.
func Default() *Config {
	c := &Config{}
	table.Defaults(c)
	return c
}

// ParseConfig reads config.json. name is the file's name in messages. Keys that model hubs add are ignored. Other
// unknown keys and duplicate keys are errors, and so is everything that Validate refuses.
func ParseConfig(data []byte, name string) (*Config, error) {
	c, err := models.ParseConfig(data, name)
	if err != nil {
		return nil, err
	}
	e, ok := c.(*Config)
	if !ok {
		return nil, fmt.Errorf("%s: model_type: expected %s, found %s", name, Type, c.Type())
	}
	return e, nil
}

// Type returns the model_type.
func (c *Config) Type() string { return c.ModelType }

// Settings returns the values of config.json by key.
func (c *Config) Settings() config.Settings { return table.Bind(c) }

// Validate checks every value, and the values against each other.
func (c *Config) Validate() error {
	if err := table.Validate(c); err != nil {
		return err
	}
	if c.DModel%c.Layer.Heads != 0 {
		return fmt.Errorf("layer.heads: expected a divisor of d_model %d, found %d", c.DModel, c.Layer.Heads)
	}
	if k := c.DModel * c.Layer.Channels; k > maxFeatures {
		return fmt.Errorf("layer.channels: expected at most %d features (d_model × channels), found %d", maxFeatures, k)
	}
	if c.Decoder.Mode == "none" {
		if c.Decoder.UseLengths {
			return fmt.Errorf("decoder.use_lengths: mode none keeps every step, so lengths are meaningless")
		}
		if c.Decoder.Type == "retrieval" {
			return fmt.Errorf("decoder.mode: a retrieval decoder compares one vector per document, so it cannot be " +
				"none")
		}
	}
	if c.Decoder.Type == "retrieval" && !c.Decoder.NLI && c.DModel < 2 {
		return fmt.Errorf("d_model: expected at least 2 for a retrieval decoder without nli, found %d", c.DModel)
	}
	if k := len(c.ID2Label); k > 0 && k != c.Decoder.DOutput {
		return fmt.Errorf("id2label: expected %d names (decoder.d_output), found %d", c.Decoder.DOutput, k)
	}
	return nil
}

// Causal reports whether the model's answer at a step depends on no later step, so that it can stream.
func (c *Config) Causal() bool { return !c.Layer.Bidirectional && c.Norm != "instance" }

// Clone copies the configuration.
func (c *Config) Clone() *Config {
	d := *c
	d.ID2Label = slices.Clone(c.ID2Label)
	return &d
}

// finite reports whether x can be written in JSON.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
