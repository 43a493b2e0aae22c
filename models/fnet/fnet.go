// Package fnet is the family FNet (Lee-Thorp, Ainslie, Eckstein, Ontañón, FNet: Mixing Tokens with Fourier Transforms,
// 2022), as the directories of model hubs hold it: the encoder, alone (FNetModel) or with one of the heads of the
// library transformers: words that are masked, classes of sequences or of tokens, next sentences, choices, answers.
//
//	x = projection(layernorm(word[token] + type[0] + position[t]))
//	layer: x = layernorm(x + Re F(x)), x = layernorm(x + W₂ f(W₁ x + b₁) + b₂)
//	classification: classifier(tanh(pooler(x[0]))); masked: layernorm(f(dense(x))) wordᵀ + bias
//
// All tokens have type 0. For FNetForMultipleChoice, each row of the batch is one choice, with one score.
// F is the Fourier transform over steps and features. It imports ir, ir/tensor, models, models/backbone and
// models/config.
package fnet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// Type is the model_type of the family.
const Type = "fnet"

// Config is config.json of a model hub.
type Config struct {
	ModelType        string
	Architecture     string
	VocabSize        int
	HiddenSize       int
	Layers           int
	IntermediateSize int
	Act              string
	MaxPositions     int
	Types            int
	Epsilon          float64
	InitRange        float64
	PadToken         int
	Tied             bool
	NumLabels        int
	ID2Label         []string
}

// acts are the values of hidden_act, by the names that the hub's code has for them, and the activations of
// models/backbone.
var acts = map[string]string{"gelu": "gelu", "gelu_new": "", "gelu_pytorch_tanh": "", "gelu_fast": "", "relu": "relu",
	"silu": "silu", "swish": "silu", "tanh": "tanh", "sigmoid": "sigmoid"}

var table = &config.Table[Config]{
	Ignored: []string{"hidden_dropout_prob", "use_tpu_fourier_optimizations", "tpu_short_seq_length"},
	Hub:     true,
	Labels:  func(c *Config) *[]string { return &c.ID2Label },
	Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{Type}, Def: Type},
		{Key: "architectures", Ref: func(c *Config) any { return &c.Architecture }, Listed: true,
			OneOf: architectures},
		{Key: "vocab_size", Ref: func(c *Config) any { return &c.VocabSize }, Lo: 1, Hi: 1 << 26, Def: 32000},
		{Key: "hidden_size", Ref: func(c *Config) any { return &c.HiddenSize }, Lo: 1, Hi: backbone.MaxSize, Def: 768},
		{Key: "num_hidden_layers", Ref: func(c *Config) any { return &c.Layers }, Lo: 1, Hi: 1 << 12, Def: 12},
		{Key: "intermediate_size", Ref: func(c *Config) any { return &c.IntermediateSize }, Lo: 1, Hi: backbone.MaxSize,
			Def: 3072},
		{Key: "hidden_act", Ref: func(c *Config) any { return &c.Act },
			OneOf: []string{"gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "swish", "tanh",
				"sigmoid"},
			Def: "gelu_new"},
		{Key: "max_position_embeddings", Ref: func(c *Config) any { return &c.MaxPositions }, Lo: 2,
			Hi: backbone.MaxSize, Def: 512},
		{Key: "type_vocab_size", Ref: func(c *Config) any { return &c.Types }, Lo: 1, Hi: backbone.MaxSize, Def: 4},
		{Key: "layer_norm_eps", Ref: func(c *Config) any { return &c.Epsilon }, Def: 1e-12},
		{Key: "initializer_range", Ref: func(c *Config) any { return &c.InitRange }, Def: 0.02},
		{Key: "pad_token_id", Ref: func(c *Config) any { return &c.PadToken }, Lo: 0, Hi: 1 << 26, Def: 3},
		{Key: "tie_word_embeddings", Ref: func(c *Config) any { return &c.Tied }, Def: true, OmitDefault: true},
		{Key: "num_labels", Ref: func(c *Config) any { return &c.NumLabels }, Lo: 1, Hi: backbone.MaxSize, Null: true,
			Omit: true},
	},
}

func newConfig() *Config {
	c := &Config{}
	table.Defaults(c)
	return c
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
	if !c.Tied {
		return errors.New("tie_word_embeddings: expected true, found false: the word embedding is the last matrix of " +
			"a masked model")
	}
	if k := len(c.ID2Label); k > 0 && c.NumLabels > 0 && k != c.NumLabels {
		return fmt.Errorf("id2label: expected %d names (num_labels), found %d", c.NumLabels, k)
	}
	return nil
}

// classes is the number of classes. Hubs leave the default out.
func (c *Config) classes() int {
	switch {
	case len(c.ID2Label) > 0:
		return len(c.ID2Label)
	case c.NumLabels > 0:
		return c.NumLabels
	}
	return 2
}

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	h := heads[c.Architecture]
	common := models.Common{Input: "tokens", Layers: c.Layers, Width: c.HiddenSize, Outputs: h.outputs(c),
		Details: []string{h.doc, "tokens mixed by Fourier transforms"}}
	if h.labels {
		common.Labels = c.ID2Label
	}
	return common
}

func normSpecs(name string, d int) []models.Spec {
	return []models.Spec{{Name: name + ".LayerNorm.weight", Shape: []int{d}},
		{Name: name + ".LayerNorm.bias", Shape: []int{d}}}
}

func layerName(prefix string, i int) string { return prefix + "encoder.layer." + strconv.Itoa(i) }

// Specs lists the tensors of a model.
func (c *Config) Specs(w models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d, prefix := c.HiddenSize, c.prefix(w)
	all := []models.Spec{
		{Name: prefix + "embeddings.word_embeddings.weight", Shape: []int{c.VocabSize, d}},
		{Name: prefix + "embeddings.position_embeddings.weight", Shape: []int{c.MaxPositions, d}},
		{Name: prefix + "embeddings.token_type_embeddings.weight", Shape: []int{c.Types, d}},
	}
	all = append(all, normSpecs(prefix+"embeddings", d)...)
	all = append(all, backbone.LinearSpecs(prefix+"embeddings.projection", d, d)...)
	for i := range c.Layers {
		name := layerName(prefix, i)
		all = append(all, normSpecs(name+".fourier.output", d)...)
		all = append(all, backbone.LinearSpecs(name+".intermediate.dense", c.IntermediateSize, d)...)
		all = append(all, backbone.LinearSpecs(name+".output.dense", d, c.IntermediateSize)...)
		all = append(all, normSpecs(name+".output", d)...)
	}
	return append(all, c.headSpecs(w, prefix)...), nil
}

// Build adds the model to a builder.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	if o.Rate != 1 {
		return fmt.Errorf("rate: FNet has no step size; expected 1, found %v", o.Rate)
	}
	n, prefix := backbone.NewNetwork(b, w, o.Rate, ir.Sym("B")), c.prefix(w)
	do := func(op string, in ...*ir.Value) *ir.Value { return n.Do(op, in) }
	n.Scope("encoder")
	tokens := n.Input(models.Input, ir.Tensor(tensor.Int64, ir.Sym("B"), "L"))
	x := n.Op("essm", "Embedding", []*ir.Value{tokens, n.Weight(prefix + "embeddings.word_embeddings.weight")})
	x = do("Add", x, do("Gather", n.Weight(prefix+"embeddings.token_type_embeddings.weight"),
		n.Const("type", tensor.Scalar(int64(0)))))
	x = n.Positions(x, n.Weight(prefix+"embeddings.position_embeddings.weight"))
	x = n.Linear(c.norm(n, x, prefix+"embeddings"), prefix+"embeddings.projection")
	for i := range c.Layers {
		n.Scope("layers." + strconv.Itoa(i))
		name := layerName(prefix, i)
		x = c.norm(n, do("Add", x, n.Op("essm", "FourierMix", []*ir.Value{x})), name+".fourier.output")
		y := n.Linear(c.activation(n, n.Linear(x, name+".intermediate.dense")), name+".output.dense")
		x = c.norm(n, do("Add", x, y), name+".output")
	}
	c.decode(n, x, prefix)
	return nil
}

func (c *Config) norm(n *backbone.Network, x *ir.Value, name string) *ir.Value {
	return n.Do("LayerNormalization", []*ir.Value{x, n.Weight(name + ".LayerNorm.weight"),
		n.Weight(name + ".LayerNorm.bias")},
		ir.A("axis", -1), ir.A("epsilon", c.Epsilon))
}

func (c *Config) activation(n *backbone.Network, x *ir.Value) *ir.Value {
	if name := acts[c.Act]; name != "" {
		return n.Activation(x, name)
	}
	return n.Do("Gelu", []*ir.Value{x}, ir.A("approximate", "tanh"))
}

func init() {
	models.Register(models.Family{Type: Type, Doc: "FNet: tokens mixed by Fourier transforms",
		New:     func() models.Config { return newConfig() },
		Presets: presets})
}

// presets has the two sizes of the paper.
func presets() []models.Preset {
	preset := func(id, doc, architecture string, d, layers int) models.Preset {
		c := newConfig()
		c.Architecture, c.HiddenSize, c.Layers, c.IntermediateSize = architecture, d, layers, 4*d
		return models.Preset{ID: id, Doc: doc, Config: c, Length: 512,
			Init: func(c models.Config, seed uint64) (models.Weights, error) { return Init(c.(*Config), seed) }}
	}
	return []models.Preset{
		preset("fnet-base", "Text: words that are masked, with FNet-Base", masked, 768, 12),
		preset("fnet-large", "Text: words that are masked, with FNet-Large", masked, 1024, 24),
		preset("fnet-classify", "Text: classes of sentences, with FNet-Base", classification, 768, 12),
	}
}

// Init makes initial weights for training. Equal seeds give equal weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	return backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		switch {
		case strings.HasSuffix(s.Name, ".LayerNorm.weight"):
			for i := range x {
				x[i] = 1
			}
		case len(s.Shape) == 2:
			r.Fill(x, c.InitRange)
			if at := c.PadToken * s.Shape[1]; strings.HasSuffix(s.Name, ".word_embeddings.weight") && at < len(x) {
				clear(x[at : at+s.Shape[1]])
			}
		}
	})
}
