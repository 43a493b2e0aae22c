// Package fnet is the family FNet (Lee-Thorp, Ainslie, Eckstein, Ontañón, FNet: Mixing Tokens with Fourier Transforms,
// 2022), as the directories of model hubs hold it: classification of sequences, and masked language models.
//
//	x = projection(layernorm(word[token] + type[0] + position[t]))
//	layer: x = layernorm(x + Re F(x)), x = layernorm(x + W₂ f(W₁ x + b₁) + b₂)
//	classification: classifier(tanh(pooler(x[0]))); masked: layernorm(f(dense(x))) wordᵀ + bias
//
// F is the Fourier transform over steps and features. It imports ir, ir/tensor, models, models/backbone and models/config.
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

// Values of the key architectures.
const (
	classification = "FNetForSequenceClassification"
	masked         = "FNetForMaskedLM"
)

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
var acts = map[string]string{"gelu": "gelu", "gelu_new": "", "gelu_pytorch_tanh": "", "gelu_fast": "", "relu": "relu", "silu": "silu",
	"swish": "silu", "tanh": "tanh", "sigmoid": "sigmoid"}

var table = &config.Table[Config]{
	Ignored: []string{"torch_dtype", "transformers_version", "_name_or_path", "label2id", "bos_token_id", "eos_token_id",
		"hidden_dropout_prob", "use_tpu_fourier_optimizations", "tpu_short_seq_length", "problem_type"},
	Labels: func(c *Config) *[]string { return &c.ID2Label },
	Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{Type}, Def: Type},
		{Key: "architectures", Ref: func(c *Config) any { return &c.Architecture }, Listed: true,
			OneOf: []string{classification, masked}},
		{Key: "vocab_size", Ref: func(c *Config) any { return &c.VocabSize }, Lo: 1, Hi: 1 << 26, Def: 32000},
		{Key: "hidden_size", Ref: func(c *Config) any { return &c.HiddenSize }, Lo: 1, Hi: backbone.MaxSize, Def: 768},
		{Key: "num_hidden_layers", Ref: func(c *Config) any { return &c.Layers }, Lo: 1, Hi: 1 << 12, Def: 12},
		{Key: "intermediate_size", Ref: func(c *Config) any { return &c.IntermediateSize }, Lo: 1, Hi: backbone.MaxSize, Def: 3072},
		{Key: "hidden_act", Ref: func(c *Config) any { return &c.Act },
			OneOf: []string{"gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "swish", "tanh", "sigmoid"},
			Def:   "gelu_new"},
		{Key: "max_position_embeddings", Ref: func(c *Config) any { return &c.MaxPositions }, Lo: 2, Hi: backbone.MaxSize, Def: 512},
		{Key: "type_vocab_size", Ref: func(c *Config) any { return &c.Types }, Lo: 1, Hi: backbone.MaxSize, Def: 4},
		{Key: "layer_norm_eps", Ref: func(c *Config) any { return &c.Epsilon }, Def: 1e-12},
		{Key: "initializer_range", Ref: func(c *Config) any { return &c.InitRange }, Def: 0.02},
		{Key: "pad_token_id", Ref: func(c *Config) any { return &c.PadToken }, Lo: 0, Hi: 1 << 26, Def: 3},
		{Key: "tie_word_embeddings", Ref: func(c *Config) any { return &c.Tied }, Def: true, OmitDefault: true},
		{Key: "num_labels", Ref: func(c *Config) any { return &c.NumLabels }, Lo: 1, Hi: backbone.MaxSize, Null: true, Omit: true},
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
		return errors.New("tie_word_embeddings: expected true, found false: the word embedding is the last matrix of a masked model")
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
	common := models.Common{Input: "tokens", Layers: c.Layers, Width: c.HiddenSize, Outputs: c.VocabSize,
		Details: []string{"masked language model", "tokens mixed by Fourier transforms"}}
	if c.Architecture == classification {
		common.Outputs, common.Details[0], common.Labels = c.classes(), "classification", c.ID2Label
	}
	return common
}

// Extra reports whether a checkpoint may have a tensor besides: heads of pretraining, and copies.
func (c *Config) Extra(name string) bool {
	switch {
	case name == "fnet.embeddings.position_ids" || name == "fnet.embeddings.token_type_ids":
		return true
	case c.Architecture == classification:
		return false
	}
	return strings.HasPrefix(name, "fnet.pooler.dense.") || strings.HasPrefix(name, "cls.predictions.decoder.") ||
		strings.HasPrefix(name, "cls.seq_relationship.")
}

func normSpecs(name string, d int) []models.Spec {
	return []models.Spec{{Name: name + ".LayerNorm.weight", Shape: []int{d}}, {Name: name + ".LayerNorm.bias", Shape: []int{d}}}
}

func layerName(i int) string { return "fnet.encoder.layer." + strconv.Itoa(i) }

// Specs lists the tensors of a model.
func (c *Config) Specs(models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d := c.HiddenSize
	all := []models.Spec{
		{Name: "fnet.embeddings.word_embeddings.weight", Shape: []int{c.VocabSize, d}},
		{Name: "fnet.embeddings.position_embeddings.weight", Shape: []int{c.MaxPositions, d}},
		{Name: "fnet.embeddings.token_type_embeddings.weight", Shape: []int{c.Types, d}},
	}
	all = append(all, normSpecs("fnet.embeddings", d)...)
	all = append(all, backbone.LinearSpecs("fnet.embeddings.projection", d, d)...)
	for i := range c.Layers {
		name := layerName(i)
		all = append(all, normSpecs(name+".fourier.output", d)...)
		all = append(all, backbone.LinearSpecs(name+".intermediate.dense", c.IntermediateSize, d)...)
		all = append(all, backbone.LinearSpecs(name+".output.dense", d, c.IntermediateSize)...)
		all = append(all, normSpecs(name+".output", d)...)
	}
	if c.Architecture == classification {
		all = append(all, backbone.LinearSpecs("fnet.pooler.dense", d, d)...)
		return append(all, backbone.LinearSpecs("classifier", c.classes(), d)...), nil
	}
	all = append(all, backbone.LinearSpecs("cls.predictions.transform.dense", d, d)...)
	all = append(all, normSpecs("cls.predictions.transform", d)...)
	return append(all, models.Spec{Name: "cls.predictions.bias", Shape: []int{c.VocabSize}}), nil
}

// Build adds the model to a builder.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	if o.Rate != 1 {
		return fmt.Errorf("rate: FNet has no step size; expected 1, found %v", o.Rate)
	}
	n := backbone.NewNetwork(b, w, o.Rate, ir.Sym("B"))
	do := func(op string, in ...*ir.Value) *ir.Value { return n.Do(op, in) }
	n.Scope("encoder")
	tokens := n.Input(models.Input, ir.Tensor(tensor.Int64, ir.Sym("B"), "L"))
	x := n.Op("essm", "Embedding", []*ir.Value{tokens, n.Weight("fnet.embeddings.word_embeddings.weight")})
	x = do("Add", x, do("Gather", n.Weight("fnet.embeddings.token_type_embeddings.weight"), n.Const("type", tensor.Scalar(int64(0)))))
	x = n.Positions(x, n.Weight("fnet.embeddings.position_embeddings.weight"))
	x = n.Linear(c.norm(n, x, "fnet.embeddings"), "fnet.embeddings.projection")
	for i := range c.Layers {
		n.Scope("layers." + strconv.Itoa(i))
		name := layerName(i)
		x = c.norm(n, do("Add", x, n.Op("essm", "FourierMix", []*ir.Value{x})), name+".fourier.output")
		y := n.Linear(c.activation(n, n.Linear(x, name+".intermediate.dense")), name+".output.dense")
		x = c.norm(n, do("Add", x, y), name+".output")
	}
	n.Scope("decoder")
	if c.Architecture == classification {
		x = do("Tanh", n.Linear(n.Op("essm", "Pick", []*ir.Value{x}, ir.A("mode", "first")), "fnet.pooler.dense"))
		n.Output(models.Output, n.Linear(x, "classifier"))
		return nil
	}
	x = c.norm(n, c.activation(n, n.Linear(x, "cls.predictions.transform.dense")), "cls.predictions.transform")
	n.Output(models.Output, n.Op("essm", "Linear", []*ir.Value{x, n.Weight("fnet.embeddings.word_embeddings.weight"),
		n.Weight("cls.predictions.bias")}))
	return nil
}

func (c *Config) norm(n *backbone.Network, x *ir.Value, name string) *ir.Value {
	return n.Do("LayerNormalization", []*ir.Value{x, n.Weight(name + ".LayerNorm.weight"), n.Weight(name + ".LayerNorm.bias")},
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
