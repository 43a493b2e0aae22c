package backbone

import (
	"fmt"
	"strings"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// Config is config.json.
type Config struct {
	kinds map[string]func() Layer // the layers that the family has
	whole bool                    // the model is one layer, without a norm and residual sum
	older bool                    // an encoder of one part, and the decoder, have no numbers in the names of tensors

	ModelType    string
	SamplingRate int
	Encoder      []Encoder // one after the other
	Name         string    // of the frame: model
	DModel       int
	outputs      int // features before the decoder
	NLayers      int // the layers are repeated so often
	Prenorm      bool
	Transposed   bool // norm "layer" has one mean and one scale for all features
	// key bidirectional: each block has a second layer, which sees the same sequence, and a linear one for both
	Twice    bool
	Residual string
	Norm     string
	Layers   []Layer
	Decoder  Decoder
	ID2Label []string
}

// Decoder maps the last block's sequence to the answer.
type Decoder struct {
	Name       string // sequence
	Mode       string // last, first, pool, sum
	LOutput    int    // 0: one vector; n: that many steps; -1: all
	DOutput    int
	UseLengths bool
}

// Layer is what a block computes: its configuration, with its tensors and its graph.
type Layer interface {
	config.Part
	// Check checks the values against each other, and against the d features between blocks. Errors begin with a key.
	Check(d int) error
	// Causal reports whether the layer looks at no later step.
	Causal() bool
	// Streams reports whether it can carry on from one chunk of steps to the next, with a state of fixed size.
	Streams() bool
	// State returns the number of float32 of its state for one sample, given the weights.
	State(d int, w models.Weights, prefix string) int
	// Specs lists the layer's tensors, whose names begin with prefix.
	Specs(d int, w models.Weights, prefix string) []models.Spec
	// Init fills a tensor with initial values, or reports false if the rule for all layers applies.
	Init(x []float64, s models.Spec, name string, r *Random) bool
	// Build returns the layer's output and, if there is one, its next state. lengths is nil if there are none.
	Build(n *Network, x, lengths, state *Value, prefix string) (y, next *Value)
}

// Whole is a layer that can be the whole model.
type Whole interface {
	Layer
	// Widths returns the number of features before the layer and after it. The first is 0 if it is not stated.
	Widths() (in, out int)
}

// Bounds of sizes. Products of two do not overflow.
const (
	MaxSize   = 1 << 20
	maxVocab  = 1 << 26
	maxLayers = 1 << 12
	maxRate   = 1 << 24 // Hz
)

// training are keys at the top that only training reads.
var training = []string{"train", "optimizer", "scheduler", "dataset", "loader", "task",
	"model.dropout", "model.tie_dropout", "model.dropinp", "model.track_norms", "model.initializer", "model.layer_reg",
	"model.drop_path", "model.verbose", "decoder.dropout"}

// every is LOutput for all steps.
const every = -1

// fields are the keys, around those of the object model.
func fields(model ...config.Field[Config]) []config.Field[Config] {
	all := []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }},
		{Key: "sampling_rate", Ref: func(c *Config) any { return &c.SamplingRate }, Lo: 1, Hi: maxRate, Null: true,
			Omit: true},
		{Key: "encoder", Ref: func(c *Config) any { return config.Chain(&c.Encoder, encoders) }},
	}
	return append(append(all, model...),
		config.Field[Config]{Key: "decoder._name_", Ref: func(c *Config) any { return &c.Decoder.Name },
			OneOf: []string{"sequence"}, Def: "sequence"},
		config.Field[Config]{Key: "decoder.mode", Ref: func(c *Config) any { return &c.Decoder.Mode },
			OneOf: []string{"last", "first", "pool", "sum"}, Def: "last"},
		config.Field[Config]{Key: "decoder.l_output", Ref: func(c *Config) any { return &c.Decoder.LOutput }, Lo: 0,
			Hi: 1 << 30, Def: 0, NullIs: every},
		config.Field[Config]{Key: "decoder.d_output", Ref: func(c *Config) any { return &c.Decoder.DOutput }, Lo: 1,
			Hi: MaxSize},
		config.Field[Config]{Key: "decoder.use_lengths", Ref: func(c *Config) any { return &c.Decoder.UseLengths },
			Def: false})
}

func labels(c *Config) *[]string { return &c.ID2Label }

// blocksTable describes a model of blocks, wholeTable one of a single layer without a norm and residual sum.
var (
	blocksTable = &config.Table[Config]{Ignored: training, Hub: true, Labels: labels, Fields: fields(
		config.Field[Config]{Key: "model._name_", Ref: func(c *Config) any { return &c.Name }, OneOf: []string{"model"},
			Def: "model"},
		config.Field[Config]{Key: "model.d_model", Ref: func(c *Config) any { return &c.DModel }, Lo: 1, Hi: MaxSize},
		config.Field[Config]{Key: "model.n_layers", Ref: func(c *Config) any { return &c.NLayers }, Lo: 1,
			Hi: maxLayers, Def: 1},
		config.Field[Config]{Key: "model.prenorm", Ref: func(c *Config) any { return &c.Prenorm }, Def: true},
		config.Field[Config]{Key: "model.transposed", Ref: func(c *Config) any { return &c.Transposed }, Def: false},
		config.Field[Config]{Key: "model.bidirectional", Ref: func(c *Config) any { return &c.Twice }, Def: false,
			OmitDefault: true},
		config.Field[Config]{Key: "model.residual", Ref: func(c *Config) any { return &c.Residual },
			OneOf: []string{"R", "N", "F"}, Null: true},
		config.Field[Config]{Key: "model.norm", Ref: func(c *Config) any { return &c.Norm },
			OneOf: []string{"layer", "batch", "instance", "group", "none"}, Null: true},
		config.Field[Config]{Key: "model.layer", Ref: func(c *Config) any { return config.Chain(&c.Layers, c.kinds) }})}
	wholeTable = &config.Table[Config]{Ignored: training, Hub: true, Labels: labels, Fields: fields(
		config.Field[Config]{Key: "model", Ref: func(c *Config) any { return config.One(&c.Layers, c.kinds) }})}
)

func (c *Config) table() *config.Table[Config] {
	if c.whole {
		return wholeTable
	}
	return blocksTable
}

// New returns a configuration of a family with the given kinds of layers, with all defaults and no sizes.
func New(modelType string, kinds map[string]func() Layer) *Config {
	c := &Config{kinds: kinds}
	blocksTable.Defaults(c)
	c.ModelType = modelType
	return c
}

// Type returns the model_type.
func (c *Config) Type() string { return c.ModelType }

// Settings returns the values of config.json by key.
func (c *Config) Settings() config.Settings { return settings{c.table().Bind(c)} }

// settings are those of the table in use.
type settings struct{ config.Bound[Config] }

// Read sets the values of an object of JSON, by the table that its kind of layer says.
func (s settings) Read(v *config.Value) error {
	c := s.C
	if name := v.Get("model").Get(config.NameKey); name != nil && c.kinds[name.Text] != nil {
		if _, ok := c.kinds[name.Text]().(Whole); ok {
			*c = Config{kinds: c.kinds, older: c.older, whole: true, ModelType: c.ModelType, NLayers: 1, Norm: "none"}
			wholeTable.Defaults(c)
		}
	}
	return c.table().Read(c, v)
}

// Set sets one key, but not the model_type, which says the kinds of layers.
func (s settings) Set(key, value string) error {
	if key == "model_type" && value != s.C.ModelType {
		return fmt.Errorf("model_type: expected %s, found %s", s.C.ModelType, config.Shorten(value))
	}
	return s.Bound.Set(key, value)
}

// Validate checks every value, and the values against each other.
func (c *Config) Validate() error {
	if err := c.table().Validate(c); err != nil {
		return err
	}
	if c.whole {
		c.DModel, c.outputs = c.Layers[0].(Whole).Widths()
		if c.DModel == 0 {
			return fmt.Errorf("model.d_model: is missing, expected an integer from 1 to %d", MaxSize)
		}
	} else {
		c.outputs = c.DModel
	}
	for i, l := range c.Layers {
		if c.whole {
			break
		}
		if err := l.Check(c.DModel); err != nil {
			if len(c.Layers) > 1 {
				return fmt.Errorf("model.layer.%d.%w", i, err)
			}
			return fmt.Errorf("model.layer.%w", err)
		}
	}
	if c.Twice && c.Transposed {
		return fmt.Errorf("model.bidirectional: expected false with transposed, with which the released code cannot " +
			"run, found true")
	}
	if len(c.Layers)*c.NLayers > maxLayers {
		return fmt.Errorf("model.n_layers: expected at most %d layers, found %d", maxLayers, len(c.Layers)*c.NLayers)
	}
	width := 0
	for i, e := range c.Encoder {
		var err error
		if width, err = e.width(width, c.DModel, i == len(c.Encoder)-1); err != nil {
			return fmt.Errorf("encoder.%w", err)
		}
	}
	d := c.Decoder
	if d.LOutput != 0 {
		if d.Mode == "pool" {
			return fmt.Errorf("decoder.mode: pool gives one vector, expected l_output 0, found %s", steps(d.LOutput))
		}
		if d.UseLengths {
			return fmt.Errorf("decoder.use_lengths: expected l_output 0, found %s", steps(d.LOutput))
		}
	}
	if k := len(c.ID2Label); k > 0 && k != d.DOutput {
		return fmt.Errorf("id2label: expected %d names (decoder.d_output), found %d", d.DOutput, k)
	}
	return nil
}

func steps(n int) string {
	if n == every {
		return "null"
	}
	return fmt.Sprint(n)
}

// Causal reports whether the answer at a step depends on no later step. The last n steps are known at the end only.
func (c *Config) Causal() bool {
	for _, l := range c.Layers {
		if !l.Causal() {
			return false
		}
	}
	return c.Norm != "group" && c.Norm != "instance" && c.Decoder.LOutput <= 0
}

// streams reports whether the model can run chunk by chunk.
func (c *Config) streams() bool {
	if c.Twice {
		return false // as in the released code, whose second layers take no state
	}
	for _, l := range c.Layers {
		if !l.Streams() {
			return false
		}
	}
	return c.Causal()
}

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	norm := "post-norm"
	if c.whole {
		norm = "one layer"
	} else if c.Prenorm {
		norm = "pre-norm"
	}
	var names []string
	for _, l := range c.Layers {
		names = append(names, l.Name())
	}
	common := models.Common{SamplingRate: c.SamplingRate, Labels: c.ID2Label, Layers: c.NLayers * len(c.Layers),
		Width: c.DModel, Outputs: c.Decoder.DOutput, Causal: c.Causal(), Streams: c.streams(), Resamples: true,
		Details: []string{fmt.Sprintf("%s (%s)", norm, c.Norm), strings.Join(names, " and ")}}
	if len(c.Encoder) > 0 {
		common.Input = c.Encoder[0].describe(c.DModel)
	}
	if c.Twice {
		common.Details = append(common.Details, "second layers see the sequence forward too (model.bidirectional)")
	}
	return common
}
