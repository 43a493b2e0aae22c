package essm

import (
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/ops/essm"
)

// Allowed values of keys of a configuration.
var (
	EncoderTypes = []string{"identity", "linear", "embedding"}
	DecoderTypes = []string{"sequence", "retrieval"}
	Norms        = []string{"batch", "layer", "layer_scalar", "instance", "none"}
	Modes        = []string{"pool", "last", "first", "sum", "none"}
	Activations  = []string{"gelu", "relu", "leakyrelu", "tanh", "sigmoid", "silu", "swish", "full_glu", "half_glu1",
		"half_glu2"}
)

func encoderIs(kind string) func(*Config) bool {
	return func(c *Config) bool { return c.Encoder.Type == kind }
}

func decoderIs(kind string) func(*Config) bool {
	return func(c *Config) bool { return c.Decoder.Type == kind }
}

// Type is the model_type of the family.
const Type = "essm"

// table describes config.json.
var table = &config.Table[Config]{
	TypeKey: "type",
	Hub:     true,
	Labels:  func(c *Config) *[]string { return &c.ID2Label },
	Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{Type}, Def: Type},
		{Key: "sampling_rate", Ref: func(c *Config) any { return &c.SamplingRate }, Lo: 1, Hi: maxRate, Null: true,
			Omit: true},
		{Key: "encoder.type", Ref: func(c *Config) any { return &c.Encoder.Type }, OneOf: EncoderTypes},
		{Key: "encoder.d_input", Ref: func(c *Config) any { return &c.Encoder.DInput }, Lo: 1, Hi: maxSize,
			When: encoderIs("linear")},
		{Key: "encoder.vocab_size", Ref: func(c *Config) any { return &c.Encoder.VocabSize }, Lo: 1, Hi: maxVocab,
			When: encoderIs("embedding")},
		{Key: "d_model", Ref: func(c *Config) any { return &c.DModel }, Lo: 1, Hi: maxSize},
		{Key: "n_layers", Ref: func(c *Config) any { return &c.NLayers }, Lo: 1, Hi: maxLayers},
		{Key: "prenorm", Ref: func(c *Config) any { return &c.Prenorm }},
		{Key: "norm", Ref: func(c *Config) any { return &c.Norm }, OneOf: Norms},
		{Key: "layer.heads", Ref: func(c *Config) any { return &c.Layer.Heads }, Lo: 1, Hi: maxSize},
		{Key: "layer.d_state", Ref: func(c *Config) any { return &c.Layer.DState }, Lo: 1, Hi: maxSize},
		{Key: "layer.channels", Ref: func(c *Config) any { return &c.Layer.Channels }, Lo: 1, Hi: maxSize, Def: 1},
		{Key: "layer.bidirectional", Ref: func(c *Config) any { return &c.Layer.Bidirectional }},
		{Key: "layer.conj_sym", Ref: func(c *Config) any { return &c.Layer.ConjSym }},
		{Key: "layer.discretization", Ref: func(c *Config) any { return &c.Layer.Discretization }, OneOf: essm.Methods,
			Def: "zoh"},
		{Key: "layer.lambda_real", Ref: func(c *Config) any { return &c.Layer.LambdaReal }, OneOf: essm.RealConstraints,
			Def: "clip"},
		{Key: "layer.max_real_lambda", Ref: func(c *Config) any { return &c.Layer.MaxRealLambda }, Def: 1e-4},
		{Key: "layer.lambda_imag", Ref: func(c *Config) any { return &c.Layer.LambdaImag }, OneOf: essm.ImagConstraints,
			Def: "same"},
		{Key: "layer.dt", Ref: func(c *Config) any { return &c.Layer.Dt }, OneOf: []string{"per_state", "shared"}},
		{Key: "layer.d", Ref: func(c *Config) any { return &c.Layer.D }, OneOf: []string{"none", "diagonal", "full"}},
		{Key: "layer.activation", Ref: func(c *Config) any { return &c.Layer.Activation }, OneOf: Activations,
			Null: true},
		{Key: "layer.post_activation", Ref: func(c *Config) any { return &c.Layer.PostActivation }, OneOf: Activations,
			Null: true},
		{Key: "layer.max_kernel_length", Ref: func(c *Config) any { return &c.Layer.MaxKernelLength }, Lo: 1,
			Hi: 1 << 30, Null: true},
		{Key: "decoder.type", Ref: func(c *Config) any { return &c.Decoder.Type }, OneOf: DecoderTypes},
		{Key: "decoder.mode", Ref: func(c *Config) any { return &c.Decoder.Mode }, OneOf: Modes},
		{Key: "decoder.nli", Ref: func(c *Config) any { return &c.Decoder.NLI }, When: decoderIs("retrieval")},
		{Key: "decoder.activation", Ref: func(c *Config) any { return &c.Decoder.Activation },
			OneOf: []string{"gelu", "relu"}, When: decoderIs("retrieval")},
		{Key: "decoder.d_output", Ref: func(c *Config) any { return &c.Decoder.DOutput }, Lo: 1, Hi: maxSize},
		{Key: "decoder.use_lengths", Ref: func(c *Config) any { return &c.Decoder.UseLengths }, Def: false},
	}}
