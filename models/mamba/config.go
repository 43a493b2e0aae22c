package mamba

import (
	"fmt"
	"strings"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// The families' types.
const (
	Type  = "mamba"
	Type2 = "mamba2"
)

// Config is config.json: of a model hub, or of the released code, which has no model_type and other keys.
type Config struct {
	ModelType                                string
	Architecture                             string // the class of the hub's code; empty: the language model
	Released                                 bool   // the keys and tensors of the released code
	VocabSize, HiddenSize, StateSize, Layers int
	Epsilon                                  float64
	Expand, ConvKernel                       int
	TimeStepRank                             int // 0: a sixteenth of the features, rounded up
	NumHeads, HeadDim, Groups                int // of Mamba-2
	UseBias, UseConvBias, Tied               bool
	Activation                               string
	TimeStepLimit                            []float64 // of Mamba-2
	TimeStepMin, TimeStepMax, TimeStepFloor  float64
	Range                                    float64
	Rescale                                  bool
	LayerType                                string // of the released code
	PadVocab, HiddenBetween                  int
	RMSNorm                                  bool
	StateSizeSet                             int // of the released code; 0: the default of the layer
}

// training are keys that only training and other programs read.
var training = []string{"use_mambapy", "residual_in_fp32",
	"time_step_init_scheme", "time_step_scale", "intermediate_size", "chunk_size", "norm_before_gate",
	"use_associative_scan",
	// what some directories of hubs keep of the released code's configuration
	"d_inner", "d_model", "n_layer", "ssm_cfg", "fused_add_norm", "pad_vocab_size_multiple", "attn_cfg",
	"d_intermediate",
	"conv_bias"}

const most = backbone.MaxSize

// architectures lists the classes of the hub's code: a language model, and the layers alone, whose outputs are
// features.
var architectures = map[string][]string{
	Type:  {"MambaForCausalLM", "MambaModel"},
	Type2: {"Mamba2ForCausalLM", "Mamba2Model"},
}

// bare reports whether the model has no logits.
func (c *Config) bare() bool {
	return c.Architecture != "" && c.Architecture == architectures[c.ModelType][1]
}

// root begins the names of tensors but that of the logits. Hubs store layers alone without one.
func (c *Config) root(w models.Weights) string {
	if c.bare() && w["backbone.embeddings.weight"] == nil {
		return ""
	}
	return "backbone."
}

// Extra reports whether a checkpoint may have a tensor besides: logits that layers alone do not have.
func (c *Config) Extra(name string) bool { return c.bare() && name == head }

// Repeated returns the embedding for logits that the configuration ties to it.
func (c *Config) Repeated(w models.Weights, name string) string {
	if c.Tied && !c.bare() && name == head {
		return c.embedding(c.root(w))
	}
	return ""
}

// hub returns the table of the keys that both families have on hubs, and of further ones.
func hub(kind string, layers, vocab int, more ...config.Field[Config]) *config.Table[Config] {
	t := &config.Table[Config]{Ignored: training, Hub: true}
	def := map[bool]int{true: 4096, false: 768}[kind == Type2]
	eps := 1e-5
	t.Fields = append([]config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{kind}, Def: kind},
		{Key: "architectures", Ref: func(c *Config) any { return &c.Architecture }, OneOf: architectures[kind],
			Listed: true, Null: true, Omit: true},
		{Key: "vocab_size", Ref: func(c *Config) any { return &c.VocabSize }, Lo: 1, Hi: most, Def: vocab},
		{Key: "hidden_size", Ref: func(c *Config) any { return &c.HiddenSize }, Lo: 1, Hi: most, Def: def},
		{Key: "num_hidden_layers", Ref: func(c *Config) any { return &c.Layers }, Lo: 1, Hi: 1 << 12, Def: layers},
		{Key: "expand", Ref: func(c *Config) any { return &c.Expand }, Lo: 1, Hi: 64, Def: 2},
		{Key: "conv_kernel", Ref: func(c *Config) any { return &c.ConvKernel }, Lo: 1, Hi: 64, Def: 4},
		{Key: "time_step_rank", Ref: func(c *Config) any { return &c.TimeStepRank }, Lo: 0, Hi: most, Null: true,
			Omit: true},
		{Key: "layer_norm_epsilon", Ref: func(c *Config) any { return &c.Epsilon }, Def: eps},
		{Key: "use_bias", Ref: func(c *Config) any { return &c.UseBias }, Def: false},
		{Key: "use_conv_bias", Ref: func(c *Config) any { return &c.UseConvBias }, Def: true},
		{Key: "hidden_act", Ref: func(c *Config) any { return &c.Activation }, OneOf: []string{"silu"}, Def: "silu"},
		{Key: "tie_word_embeddings", Ref: func(c *Config) any { return &c.Tied }, Def: kind == Type},
		{Key: "initializer_range", Ref: func(c *Config) any { return &c.Range }, Def: 0.1},
		{Key: "rescale_prenorm_residual", Ref: func(c *Config) any { return &c.Rescale }, Def: false},
		{Key: "time_step_min", Ref: func(c *Config) any { return &c.TimeStepMin }, Def: 1e-3},
		{Key: "time_step_max", Ref: func(c *Config) any { return &c.TimeStepMax }, Def: 0.1},
		{Key: "time_step_floor", Ref: func(c *Config) any { return &c.TimeStepFloor }, Def: 1e-4},
	}, more...)
	return t
}

var tables = map[string]*config.Table[Config]{
	Type: hub(Type, 32, 50280,
		config.Field[Config]{Key: "state_size", Ref: func(c *Config) any { return &c.StateSize }, Lo: 1, Hi: most,
			Def: 16},
		config.Field[Config]{Key: "rms_norm", Ref: func(c *Config) any { return &c.RMSNorm }, Def: true,
			OmitDefault: true}),
	Type2: hub(Type2, 64, 32768,
		config.Field[Config]{Key: "state_size", Ref: func(c *Config) any { return &c.StateSize }, Lo: 1, Hi: most,
			Def: 128},
		config.Field[Config]{Key: "num_heads", Ref: func(c *Config) any { return &c.NumHeads }, Lo: 1, Hi: most,
			Def: 128},
		config.Field[Config]{Key: "head_dim", Ref: func(c *Config) any { return &c.HeadDim }, Lo: 1, Hi: most, Def: 64},
		config.Field[Config]{Key: "n_groups", Ref: func(c *Config) any { return &c.Groups }, Lo: 1, Hi: most, Def: 8},
		config.Field[Config]{Key: "time_step_limit", Ref: func(c *Config) any { return &c.TimeStepLimit }, Null: true,
			Omit: true},
		config.Field[Config]{Key: "rms_norm", Ref: func(c *Config) any { return &c.RMSNorm }, Def: true,
			OmitDefault: true}),
}

// released is the table of the released code's keys.
var released = &config.Table[Config]{
	Ignored: []string{"residual_in_fp32", "fused_add_norm", "attn_cfg", "ssm_cfg.dt_init", "ssm_cfg.dt_scale",
		"ssm_cfg.use_fast_path", "ssm_cfg.chunk_size", "ssm_cfg.use_mem_eff_path", "ssm_cfg.A_init_range",
		"ssm_cfg.conv_init", "ssm_cfg.norm_before_gate"},
	Hub: true,
	Refused: map[string]string{"ssm_cfg.D_has_hdim": "a direct term for each feature of a head is not supported",
		"ssm_cfg.d_ssm": "layers whose system has only some of the features are not supported"},
	Fields: []config.Field[Config]{
		{Key: "d_model", Ref: func(c *Config) any { return &c.HiddenSize }, Lo: 1, Hi: most},
		{Key: "d_intermediate", Ref: func(c *Config) any { return &c.HiddenBetween }, Lo: 0, Hi: most, Def: 0},
		{Key: "n_layer", Ref: func(c *Config) any { return &c.Layers }, Lo: 1, Hi: 1 << 12},
		{Key: "vocab_size", Ref: func(c *Config) any { return &c.VocabSize }, Lo: 1, Hi: most},
		{Key: "ssm_cfg.layer", Ref: func(c *Config) any { return &c.LayerType }, OneOf: []string{"Mamba1", "Mamba2"},
			Def: "Mamba1"},
		{Key: "ssm_cfg.d_state", Ref: func(c *Config) any { return &c.StateSizeSet }, Lo: 1, Hi: most, Null: true,
			Omit: true},
		{Key: "ssm_cfg.d_conv", Ref: func(c *Config) any { return &c.ConvKernel }, Lo: 1, Hi: 64, Def: 4,
			OmitDefault: true},
		{Key: "ssm_cfg.expand", Ref: func(c *Config) any { return &c.Expand }, Lo: 1, Hi: 64, Def: 2,
			OmitDefault: true},
		{Key: "ssm_cfg.dt_rank", Ref: func(c *Config) any { return &c.TimeStepRank }, Lo: 0, Hi: most, Null: true,
			Omit: true},
		{Key: "ssm_cfg.headdim", Ref: func(c *Config) any { return &c.HeadDim }, Lo: 1, Hi: most, Def: 64,
			OmitDefault: true},
		{Key: "ssm_cfg.ngroups", Ref: func(c *Config) any { return &c.Groups }, Lo: 1, Hi: most, Def: 1,
			OmitDefault: true},
		{Key: "ssm_cfg.conv_bias", Ref: func(c *Config) any { return &c.UseConvBias }, Def: true, OmitDefault: true},
		{Key: "ssm_cfg.bias", Ref: func(c *Config) any { return &c.UseBias }, Def: false, OmitDefault: true},
		{Key: "ssm_cfg.dt_min", Ref: func(c *Config) any { return &c.TimeStepMin }, Def: 1e-3, OmitDefault: true},
		{Key: "ssm_cfg.dt_max", Ref: func(c *Config) any { return &c.TimeStepMax }, Def: 0.1, OmitDefault: true},
		{Key: "ssm_cfg.dt_init_floor", Ref: func(c *Config) any { return &c.TimeStepFloor }, Def: 1e-4,
			OmitDefault: true},
		{Key: "ssm_cfg.dt_limit", Ref: func(c *Config) any { return &c.TimeStepLimit }, Null: true, Omit: true},
		{Key: "rms_norm", Ref: func(c *Config) any { return &c.RMSNorm }, Def: true},
		{Key: "pad_vocab_size_multiple", Ref: func(c *Config) any { return &c.PadVocab }, Lo: 1, Hi: most, Def: 8},
		{Key: "tie_embeddings", Ref: func(c *Config) any { return &c.Tied }, Def: true},
	},
}

func newConfig(kind string) *Config {
	c := &Config{ModelType: kind, Groups: 1}
	tables[kind].Defaults(c)
	return c
}

// table returns the table of the configuration's keys.
func (c *Config) table() *config.Table[Config] {
	if c.Released {
		return released
	}
	return tables[c.ModelType]
}

// claims reports whether a configuration without model_type is the released code's, with layers of a kind.
func claims(v *config.Value, kind string) bool {
	layer := "Mamba1"
	if s := v.Get("ssm_cfg"); s == nil || s.Kind != config.Object {
		return false
	} else if l := s.Get("layer"); l != nil {
		layer = l.Text
	}
	return v.Get("d_model") != nil && v.Get("n_layer") != nil && (layer == "Mamba2") == (kind == Type2)
}

// Type returns the model_type.
func (c *Config) Type() string { return c.ModelType }

// Settings returns the values of config.json by key.
func (c *Config) Settings() config.Settings { return settings{c.table().Bind(c)} }

// settings are those of hubs, or of the released code.
type settings struct{ config.Bound[Config] }

// Read sets the values of an object of JSON: with model_type, by the keys of hubs, without, by those of the released
// code.
func (s settings) Read(v *config.Value) error {
	c := s.C
	if t := v.Get("model_type"); t == nil || t.Kind == config.Null {
		*c = Config{ModelType: c.ModelType, Released: true, Epsilon: 1e-5, Activation: "silu", Range: 0.02}
		released.Defaults(c)
	}
	kept, err := c.plain(v, "")
	if err != nil {
		return err
	}
	if err := c.table().Read(c, kept); err != nil {
		return err
	}
	c.settle()
	return nil
}

// plain returns the object without "auto", which is the default, and without lists that are empty.
func (c *Config) plain(v *config.Value, section string) (*config.Value, error) {
	kept := &config.Value{Kind: config.Object}
	for _, m := range v.Members {
		switch key := section + m.Key; {
		case (key == "time_step_rank" || key == "ssm_cfg.dt_rank") && m.Value.Kind == config.String &&
			m.Value.Text == "auto":
			continue
		case key == "ssm_cfg" && m.Value.Kind == config.Object && c.Released:
			inner, err := c.plain(m.Value, "ssm_cfg.")
			if err != nil {
				return nil, err
			}
			m.Value = inner
		case key == "architectures" && !c.Released && m.Value.Kind == config.List && len(m.Value.Items) == 0:
			continue
		case key == "attn_layer_idx":
			if m.Value.Kind != config.List && m.Value.Kind != config.Null || len(m.Value.Items) > 0 {
				return nil, fmt.Errorf("attn_layer_idx: expected none, found %s: layers of attention are not supported",
					m.Value.Describe())
			}
			continue
		}
		kept.Members = append(kept.Members, m)
	}
	return kept, nil
}

// settle sets the sizes that follow from those of the released code.
func (c *Config) settle() {
	if !c.Released {
		return
	}
	if c.StateSize = c.StateSizeSet; c.StateSize == 0 {
		c.StateSize = map[bool]int{true: 128, false: 16}[c.ModelType == Type2]
	}
	c.NumHeads = 0
	if c.HeadDim > 0 {
		c.NumHeads = c.Expand * c.HiddenSize / c.HeadDim
	}
}

// Set sets one key.
func (s settings) Set(key, value string) error {
	if (key == "time_step_rank" || key == "ssm_cfg.dt_rank") && value == "auto" {
		value = "null"
	}
	err := s.Bound.Set(key, value)
	s.C.settle()
	return err
}

// Validate checks every value, and the values against each other.
func (c *Config) Validate() error {
	if err := c.table().Validate(c); err != nil {
		return err
	}
	key := func(hub, own string) string {
		if c.Released {
			return own
		}
		return hub
	}
	if c.HiddenBetween != 0 {
		return fmt.Errorf("d_intermediate: expected 0, found %d: blocks with further linear layers are not supported",
			c.HiddenBetween)
	}
	if c.Released && (c.LayerType == "Mamba2") != (c.ModelType == Type2) {
		return fmt.Errorf("ssm_cfg.layer: expected the layer of %s, found %s", c.ModelType, c.LayerType)
	}
	if !c.RMSNorm && !c.Released {
		return fmt.Errorf("rms_norm: expected true, found false: the norm of the code of hubs is always the root " +
			"mean square")
	}
	if c.TimeStepMin <= 0 || c.TimeStepMax < c.TimeStepMin {
		return fmt.Errorf("%s: expected step sizes 0 < %[1]s ≤ %s, found %v and %v",
			key("time_step_min", "ssm_cfg.dt_min"),
			key("time_step_max", "ssm_cfg.dt_max"), c.TimeStepMin, c.TimeStepMax)
	}
	if c.inner() > most {
		return fmt.Errorf("expand: expected at most %d features in a layer, found %d", most, c.inner())
	}
	if c.ModelType != Type2 {
		return nil
	}
	if c.NumHeads*c.HeadDim != c.inner() {
		return fmt.Errorf("%s: expected heads of %d features in all, %d times %d, found %d of %d",
			key("head_dim", "ssm_cfg.headdim"), c.inner(), c.Expand, c.HiddenSize, c.NumHeads, c.HeadDim)
	}
	if c.NumHeads%c.Groups != 0 {
		return fmt.Errorf("%s: expected a divisor of %d heads, found %d", key("n_groups", "ssm_cfg.ngroups"),
			c.NumHeads, c.Groups)
	}
	if l := c.TimeStepLimit; len(l) != 0 && (len(l) != 2 || !(l[0] <= l[1])) {
		return fmt.Errorf("%s: expected the smallest and the largest step size, found %v",
			key("time_step_limit", "ssm_cfg.dt_limit"), l)
	}
	return nil
}

// inner is the number of features within a layer.
func (c *Config) inner() int { return c.Expand * c.HiddenSize }

// rank is the number of features that step sizes are made of.
func (c *Config) rank() int {
	if c.TimeStepRank > 0 {
		return c.TimeStepRank
	}
	return (c.HiddenSize + 15) / 16
}

// vocab is the number of logits, and of rows of the embedding.
func (c *Config) vocab() int {
	if pad := c.PadVocab; c.Released && pad > 0 {
		return (c.VocabSize + pad - 1) / pad * pad
	}
	return c.VocabSize
}

// convolved is the number of features that the convolution of a layer runs over.
func (c *Config) convolved() int {
	if c.ModelType == Type2 {
		return c.inner() + 2*c.Groups*c.StateSize
	}
	return c.inner()
}

// embedding is the name of the table of tokens.
func (c *Config) embedding(root string) string {
	if c.Released {
		return root + "embedding.weight"
	}
	return root + "embeddings.weight"
}

// head is the tensor of the logits where it is not the embedding.
const head = "lm_head.weight"

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	details := []string{models.Plural(c.inner(), "feature") + " within layers", models.Plural(c.StateSize, "state") +
		" each"}
	if c.ModelType == Type2 {
		details = append(details, models.Plural(c.NumHeads, "head"))
	}
	outputs := c.vocab()
	if c.bare() {
		outputs = c.HiddenSize
	}
	return models.Common{Input: "tokens", Layers: c.Layers, Width: c.HiddenSize, Outputs: outputs, Causal: true,
		Streams: true, Details: details}
}

// Specs lists the tensors of a model. Tied logits may be stored, too, as the released code does.
func (c *Config) Specs(w models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d, e, n, root := c.HiddenSize, c.inner(), c.StateSize, c.root(w)
	all := []models.Spec{{Name: c.embedding(root), Shape: []int{c.vocab(), d}}}
	add := func(name string, shape ...int) { all = append(all, models.Spec{Name: name, Shape: shape}) }
	norm := func(name string) {
		add(name+".weight", d)
		if !c.RMSNorm {
			add(name+".bias", d)
		}
	}
	linear := func(name string, outputs, inputs int, bias bool) {
		add(name+".weight", outputs, inputs)
		if bias {
			add(name+".bias", outputs)
		}
	}
	for i := range c.Layers {
		norm(blockName(root, i) + "norm")
		m := blockName(root, i) + "mixer."
		outputs := 2 * e
		if c.ModelType == Type2 {
			outputs = e + c.convolved() + c.NumHeads
		}
		linear(m+"in_proj", outputs, d, c.UseBias)
		add(m+"conv1d.weight", c.convolved(), 1, c.ConvKernel)
		if c.UseConvBias {
			add(m+"conv1d.bias", c.convolved())
		}
		if c.ModelType == Type2 {
			add(m+"dt_bias", c.NumHeads)
			add(m+"A_log", c.NumHeads)
			add(m+"D", c.NumHeads)
			add(m+"norm.weight", e)
		} else {
			linear(m+"x_proj", c.rank()+2*n, e, false)
			linear(m+"dt_proj", e, c.rank(), true)
			add(m+"A_log", e, n)
			add(m+"D", e)
		}
		linear(m+"out_proj", d, e, c.UseBias)
	}
	norm(root + "norm_f")
	if !c.bare() && (!c.Tied || w[head] != nil) {
		add(head, c.vocab(), d)
	}
	return all, nil
}

// blockName begins the names of the tensors of block i.
func blockName(root string, i int) string { return fmt.Sprintf("%slayers.%d.", root, i) }

// last returns the last part of a tensor's name.
func last(name string) string { return name[strings.LastIndex(name, ".")+1:] }
