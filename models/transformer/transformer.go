// Package transformer is the family of Transformers (Vaswani et al., Attention Is All You Need, 2017) as
// state-spaces/s4, version 4, has it: blocks of attention ("mha") and of two linear layers ("ffn") in turn, in the
// frame of models/backbone.
//
//	mha:  softmax(q kᵀ/√(d/heads)) v for q, k, v = W x + b, with each head its part of the features;
//	      then a linear layer
//	ffn:  W₂ f(W₁ x + b₁) + b₂
//
// It imports ir, models, models/backbone and models/config. No mask is made from lengths, as there.
package transformer

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// Type is the model_type of the family.
const Type = "transformer"

var layers = map[string]func() backbone.Layer{
	"mha": func() backbone.Layer { return newAttention() },
	"ffn": func() backbone.Layer { return newFeedForward() },
}

func init() {
	models.Register(models.Family{Type: Type, Doc: "the Transformer, with sinusoidal positions",
		New:     func() models.Config { return backbone.New(Type, layers) },
		Presets: presets})
}

// presets has a small model for the task of the preset text.
func presets() []models.Preset {
	return []models.Preset{backbone.Preset("transformer-text", "Text: sentiment of IMDB reviews, byte by byte, with "+
		"a Transformer", 4096,
		backbone.New(Type, layers), `{
			"encoder": [{"_name_": "embedding", "n_tokens": 135}, {"_name_": "position", "max_len": 4096}],
			"model": {"d_model": 256, "n_layers": 4, "prenorm": true, "residual": "R", "norm": "layer",
				"layer": [{"_name_": "mha", "n_heads": 4, "causal": false}, {"_name_": "ffn", "expand": 4}]},
			"decoder": {"mode": "pool", "d_output": 2}}`)}
}

// attention is the configuration of an attention layer.
type attention struct {
	config.Keyed[attention]
	Heads  int
	Masked bool
	Bias   bool
}

var attentionTable = &config.Table[attention]{
	Ignored: []string{"dropout", "d_model"},
	Refused: map[string]string{
		"add_bias_kv":   "vectors added to keys and values are not supported",
		"add_zero_attn": "a key of zeros is not supported",
		"kdim":          "keys have the features of the input",
		"vdim":          "values have the features of the input",
	},
	Fields: []config.Field[attention]{
		{Key: "n_heads", Ref: func(a *attention) any { return &a.Heads }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "causal", Ref: func(a *attention) any { return &a.Masked }, Def: true},
		{Key: "bias", Ref: func(a *attention) any { return &a.Bias }, Def: true},
	},
}

func newAttention() *attention {
	a := &attention{}
	a.Keyed = config.Keyed[attention]{Type: "mha", C: a, Table: attentionTable}
	attentionTable.Defaults(a)
	return a
}

// Check checks the values against each other.
func (a *attention) Check(d int) error {
	if d%a.Heads != 0 {
		return fmt.Errorf("n_heads: expected a divisor of d_model %d, found %d", d, a.Heads)
	}
	return nil
}

// Causal reports whether no step attends to a later one.
func (a *attention) Causal() bool { return a.Masked }

// Streams returns false: the keys and values of all steps would be the state.
func (a *attention) Streams() bool { return false }

// State returns 0.
func (a *attention) State(int, models.Weights, string) int { return 0 }

// Specs lists the layer's tensors.
func (a *attention) Specs(d int, _ models.Weights, prefix string) []models.Spec {
	all := []models.Spec{{Name: prefix + "mha.in_proj_weight", Shape: []int{3 * d, d}}}
	if a.Bias {
		all = append(all, models.Spec{Name: prefix + "mha.in_proj_bias", Shape: []int{3 * d}})
	}
	out := backbone.LinearSpecs(prefix+"mha.out_proj", d, d)
	if !a.Bias {
		out = out[:1]
	}
	return append(all, out...)
}

// Init returns false but for biases, which are 0.
func (a *attention) Init(x []float64, s models.Spec, name string, r *backbone.Random) bool {
	switch name {
	case "mha.in_proj_weight": // Xavier
		r.Uniform(x, s.Shape[0], s.Shape[1])
	case "mha.in_proj_bias", "mha.out_proj.bias":
	default:
		return false
	}
	return true
}

// Build adds the layer to the graph.
func (a *attention) Build(n *backbone.Network, x, _, _ *ir.Value, prefix string) (y, next *ir.Value) {
	in := []*ir.Value{x, n.Weight(prefix + "mha.in_proj_weight"), n.Weight(prefix + "mha.in_proj_bias")}
	qkv := n.Ops("", "Split", 3, []*ir.Value{n.Op("essm", "Linear", in)}, ir.A("axis", -1), ir.A("num_outputs", 3))
	y = n.Do("Attention", []*ir.Value{qkv[0], qkv[1], qkv[2]}, ir.A("q_num_heads", a.Heads),
		ir.A("kv_num_heads", a.Heads), ir.A("is_causal", a.Masked))
	return n.Linear(y, prefix+"mha.out_proj"), nil
}

// feedForward is the configuration of two linear layers.
type feedForward struct {
	config.Keyed[feedForward]
	Expand     int
	Activation string
}

var feedForwardTable = &config.Table[feedForward]{
	Ignored: []string{"dropout", "tie_dropout", "transposed", "initializer"},
	Refused: map[string]string{"d_output": "the residual sum needs d_model features"},
	Fields: []config.Field[feedForward]{
		{Key: "expand", Ref: func(f *feedForward) any { return &f.Expand }, Lo: 1, Hi: 64, Def: 2},
		{Key: "activation", Ref: func(f *feedForward) any { return &f.Activation }, OneOf: backbone.Activations,
			Null: true, Def: "gelu"},
	},
}

func newFeedForward() *feedForward {
	f := &feedForward{}
	f.Keyed = config.Keyed[feedForward]{Type: "ffn", C: f, Table: feedForwardTable}
	feedForwardTable.Defaults(f)
	return f
}

// Check returns nil.
func (f *feedForward) Check(int) error { return nil }

// Causal returns true.
func (f *feedForward) Causal() bool { return true }

// Streams returns true.
func (f *feedForward) Streams() bool { return true }

// State returns 0.
func (f *feedForward) State(int, models.Weights, string) int { return 0 }

// Specs lists the layer's tensors.
func (f *feedForward) Specs(d int, _ models.Weights, prefix string) []models.Spec {
	return append(backbone.LinearSpecs(prefix+"ff.0.0", f.Expand*d, d),
		backbone.LinearSpecs(prefix+"ff.2", d, f.Expand*d)...)
}

// Init returns false: the rule for linear layers applies.
func (f *feedForward) Init([]float64, models.Spec, string, *backbone.Random) bool { return false }

// Build adds the layer to the graph.
func (f *feedForward) Build(n *backbone.Network, x, _, _ *ir.Value, prefix string) (y, next *ir.Value) {
	return n.Linear(n.Activation(n.Linear(x, prefix+"ff.0.0"), f.Activation), prefix+"ff.2"), nil
}
