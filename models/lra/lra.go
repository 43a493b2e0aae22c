// Package lra is the Transformer of the Long Range Arena (Tay et al., Long Range Arena: A Benchmark for Efficient
// Transformers, 2021), as in google-research/long-range-arena: an encoder of tokens with a head for classes.
//
//	x = embedding[token], with the vector cls before step 0 if the pool is CLS; x = x + position
//	block: x = x + attention(layernorm(x)), x = x + W₂ gelu(W₁ layernorm(x) + b₁) + b₂
//	output = logits(relu(mlp(pool(layernorm(x)))))
//
// Token 0 is padding, which no real token attends to. A padded token attends to all steps evenly, as the released
// code's bias of -1e10 has it in float32.
//
// It imports ir, ir/tensor, models, models/backbone and models/config.
package lra

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// Type is the model_type of the family.
const Type = "lra-transformer"

// Config is config.json: the arguments of the released code's encoder.
type Config struct {
	ModelType  string
	VocabSize  int
	EmbDim     int
	Heads      int
	Layers     int
	QKVDim     int
	MLPDim     int
	MaxLen     int
	Learned    bool // positions
	Classifier bool // without it, the answer is the encoder's sequence
	Pool       string
	Classes    int
	Tied       bool // all blocks have the tensors of one
	ID2Label   []string
}

const token = "CLS" // the value of classifier_pool that puts a vector before the sequence

var table = &config.Table[Config]{
	Ignored: []string{"dropout_rate", "attention_dropout_rate", "train"},
	Hub:     true,
	Refused: map[string]string{
		"shared_embedding": "the embedding is a tensor of the model",
		"interaction":      "pairs of documents are compared by another module of the released code",
	},
	Labels: func(c *Config) *[]string { return &c.ID2Label },
	Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{Type}, Def: Type},
		{Key: "vocab_size", Ref: func(c *Config) any { return &c.VocabSize }, Lo: 1, Hi: 1 << 26},
		{Key: "emb_dim", Ref: func(c *Config) any { return &c.EmbDim }, Lo: 1, Hi: backbone.MaxSize, Def: 512},
		{Key: "num_heads", Ref: func(c *Config) any { return &c.Heads }, Lo: 1, Hi: backbone.MaxSize, Def: 8},
		{Key: "num_layers", Ref: func(c *Config) any { return &c.Layers }, Lo: 1, Hi: 1 << 12, Def: 6},
		{Key: "qkv_dim", Ref: func(c *Config) any { return &c.QKVDim }, Lo: 1, Hi: backbone.MaxSize, Def: 512},
		{Key: "mlp_dim", Ref: func(c *Config) any { return &c.MLPDim }, Lo: 1, Hi: backbone.MaxSize, Def: 2048},
		{Key: "max_len", Ref: func(c *Config) any { return &c.MaxLen }, Lo: 1, Hi: backbone.MaxSize, Def: 512},
		{Key: "learn_pos_emb", Ref: func(c *Config) any { return &c.Learned }, Def: false},
		{Key: "classifier", Ref: func(c *Config) any { return &c.Classifier }, Def: false},
		{Key: "classifier_pool", Ref: func(c *Config) any { return &c.Pool }, OneOf: []string{token, "MEAN", "SUM"},
			Def: token},
		{Key: "num_classes", Ref: func(c *Config) any { return &c.Classes }, Lo: 1, Hi: backbone.MaxSize, Def: 10},
		{Key: "tied_weights", Ref: func(c *Config) any { return &c.Tied }, Def: false},
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

// maxTable bounds the numbers of the table of sinusoids.
const maxTable = 1 << 28

// Validate checks every value, and the values against each other.
func (c *Config) Validate() error {
	if err := table.Validate(c); err != nil {
		return err
	}
	switch {
	case c.QKVDim%c.Heads != 0:
		return fmt.Errorf("num_heads: expected a divisor of qkv_dim %d, found %d", c.QKVDim, c.Heads)
	case !c.Learned && c.EmbDim%2 != 0:
		return fmt.Errorf("emb_dim: expected an even number, for as many sines as cosines, found %d", c.EmbDim)
	case !c.Learned && c.rows() > maxTable/c.EmbDim:
		return fmt.Errorf("max_len: expected at most %d steps of %d sinusoids, found %d", maxTable/c.EmbDim, c.EmbDim,
			c.MaxLen)
	}
	if k := len(c.ID2Label); k > 0 && (k != c.Classes || !c.Classifier) {
		return fmt.Errorf("id2label: expected %d names (num_classes, with classifier), found %d", c.Classes, k)
	}
	return nil
}

// cls reports whether a vector stands before the sequence.
func (c *Config) cls() bool { return c.Classifier && c.Pool == token }

// rows is the number of positions.
func (c *Config) rows() int {
	if c.cls() {
		return c.MaxLen + 1
	}
	return c.MaxLen
}

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	common := models.Common{Labels: c.ID2Label, Input: "tokens", Layers: c.Layers, Width: c.EmbDim, Outputs: c.EmbDim,
		Details: []string{models.Plural(c.Heads, "head"), "every step out"}}
	if c.Classifier {
		common.Outputs, common.Details[1] = c.Classes, "pool "+c.Pool
	}
	return common
}

// block returns the name of block i's tensors.
func (c *Config) block(i int) string {
	if c.Tied {
		return "encoderblock"
	}
	return "encoderblock_" + strconv.Itoa(i)
}

func normSpecs(name string, d int) []models.Spec {
	return []models.Spec{{Name: name + ".scale", Shape: []int{d}}, {Name: name + ".bias", Shape: []int{d}}}
}

func linearSpecs(name string, inputs, outputs int) []models.Spec {
	return []models.Spec{{Name: name + ".kernel", Shape: []int{inputs, outputs}},
		{Name: name + ".bias", Shape: []int{outputs}}}
}

// Specs lists the tensors of a model.
func (c *Config) Specs(models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d, e := c.EmbDim, c.QKVDim/c.Heads
	all := []models.Spec{{Name: "Embed_0.embedding", Shape: []int{c.VocabSize, d}}}
	if c.cls() {
		all = append(all, models.Spec{Name: "cls", Shape: []int{1, 1, d}})
	}
	if c.Learned {
		all = append(all, models.Spec{Name: "posembed_input.pos_embedding", Shape: []int{1, c.rows(), d}})
	}
	for i := range c.Layers {
		if i > 0 && c.Tied {
			break
		}
		name := c.block(i)
		all = append(all, normSpecs(name+".LayerNorm_0", d)...)
		for _, part := range []string{"query", "key", "value"} {
			all = append(all, models.Spec{Name: name + ".SelfAttention_1." + part + ".kernel",
				Shape: []int{d, c.Heads, e}})
		}
		all = append(all, models.Spec{Name: name + ".SelfAttention_1.out.kernel", Shape: []int{c.Heads, e, d}})
		all = append(all, normSpecs(name+".LayerNorm_2", d)...)
		all = append(all, linearSpecs(name+".MlpBlock_3.Dense_0", d, c.MLPDim)...)
		all = append(all, linearSpecs(name+".MlpBlock_3.Dense_1", c.MLPDim, d)...)
	}
	all = append(all, normSpecs("encoder_norm", d)...)
	if c.Classifier {
		all = append(all, linearSpecs("mlp", d, c.MLPDim)...)
		all = append(all, linearSpecs("logits", c.MLPDim, c.Classes)...)
	}
	return all, nil
}

// Build adds the model to a builder.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	if o.Rate != 1 {
		return fmt.Errorf("rate: a Transformer has no step size; expected 1, found %v", o.Rate)
	}
	n := backbone.NewNetwork(b, w, o.Rate, ir.Sym("B"))
	do := func(op string, in ...*ir.Value) *ir.Value { return n.Do(op, in) }
	n.Scope("encoder")
	tokens := n.Input(models.Input, ir.Tensor(tensor.Int64, ir.Sym("B"), "L"))
	x := n.Op("essm", "Embedding", []*ir.Value{tokens, n.Weight("Embed_0.embedding")})
	keys := do("Greater", tokens, n.Const("padding", tensor.Scalar(int64(0))))
	if c.cls() {
		batch := n.Do("Shape", []*ir.Value{tokens}, ir.A("start", 0), ir.A("end", 1))
		sizes := n.Do("Concat", []*ir.Value{batch, n.Ints("one", 1, 1)}, ir.A("axis", 0))
		x = n.Do("Concat", []*ir.Value{do("Expand", n.Weight("cls"), sizes), x}, ir.A("axis", 1))
		first := do("Slice", keys, n.Ints("first", 0), n.Ints("second", 1), n.Ints("steps", 1))
		keys = n.Do("Concat", []*ir.Value{first, keys}, ir.A("axis", 1)) // cls counts as step 0 does
	}
	x = n.Positions(x, c.positions(n))
	queries := do("Unsqueeze", keys, n.Ints("features", 2))
	keys = do("Unsqueeze", keys, n.Ints("heads and queries", 1, 2))
	for i := range c.Layers {
		n.Scope("layers." + strconv.Itoa(i))
		name := c.block(i)
		x = do("Add", x, c.attention(n, norm(n, x, name+".LayerNorm_0"), keys, queries, name+".SelfAttention_1."))
		y := n.Do("Gelu", []*ir.Value{linear(n, norm(n, x, name+".LayerNorm_2"), name+".MlpBlock_3.Dense_0")},
			ir.A("approximate", "tanh"))
		x = do("Add", x, linear(n, y, name+".MlpBlock_3.Dense_1"))
	}
	n.Scope("decoder")
	x = norm(n, x, "encoder_norm")
	if c.Classifier {
		mode := map[string]string{token: "first", "MEAN": "pool", "SUM": "sum"}[c.Pool]
		x = n.Op("essm", "Pick", []*ir.Value{x}, ir.A("mode", mode))
		x = linear(n, do("Relu", linear(n, x, "mlp")), "logits")
	}
	n.Output(models.Output, x)
	return nil
}

// positions returns the table of what is added to each step.
func (c *Config) positions(n *backbone.Network) *ir.Value {
	if c.Learned {
		return n.Do("Squeeze", []*ir.Value{n.Weight("posembed_input.pos_embedding"), n.Ints("sample", 0)})
	}
	sines := make([]float64, c.rows()*c.EmbDim)
	backbone.Sinusoids(sines, c.EmbDim)
	return n.Do("Cast", []*ir.Value{n.Const("sinusoids", tensor.FromSlice(sines, c.rows(), c.EmbDim))}, ir.A("to", 1))
}

// attention returns the attention of x over the keys that are no padding. queries says which queries are none; the
// others have the mean of all values.
func (c *Config) attention(n *backbone.Network, x, keys, queries *ir.Value, prefix string) *ir.Value {
	project := func(x *ir.Value, part string, inputs, outputs int) *ir.Value {
		kernel := n.Do("Reshape", []*ir.Value{n.Weight(prefix + part + ".kernel"),
			n.Ints("matrix", int64(inputs), int64(outputs))})
		return n.Op("essm", "Linear", []*ir.Value{x, n.Do("Transpose", []*ir.Value{kernel})})
	}
	q, k, v := project(x, "query", c.EmbDim, c.QKVDim), project(x, "key", c.EmbDim, c.QKVDim),
		project(x, "value", c.EmbDim, c.QKVDim)
	y := n.Do("Attention", []*ir.Value{q, k, v, keys}, ir.A("q_num_heads", c.Heads), ir.A("kv_num_heads", c.Heads))
	y = n.Do("Where", []*ir.Value{queries, y, n.Do("ReduceMean", []*ir.Value{v, n.Ints("steps", 1)})})
	return project(y, "out", c.QKVDim, c.EmbDim)
}

func linear(n *backbone.Network, x *ir.Value, name string) *ir.Value {
	w := n.Do("Transpose", []*ir.Value{n.Weight(name + ".kernel")})
	return n.Op("essm", "Linear", []*ir.Value{x, w, n.Weight(name + ".bias")})
}

func norm(n *backbone.Network, x *ir.Value, name string) *ir.Value {
	return n.Do("LayerNormalization", []*ir.Value{x, n.Weight(name + ".scale"), n.Weight(name + ".bias")},
		ir.A("axis", -1), ir.A("epsilon", 1e-6))
}

func init() {
	models.Register(models.Family{Type: Type, Doc: "the Transformer of the Long Range Arena",
		New:     func() models.Config { return newConfig() },
		Presets: presets})
}

// presets has the released configurations for two tasks.
func presets() []models.Preset {
	preset := func(id, doc string, change func(c *Config)) models.Preset {
		c := newConfig()
		c.Classifier = true
		change(c)
		return models.Preset{ID: id, Doc: doc, Config: c, Length: c.MaxLen,
			Init: func(c models.Config, seed uint64) (models.Weights, error) { return Init(c.(*Config), seed) }}
	}
	return []models.Preset{
		preset("lra-listops", "ListOps: the value of a nested list expression, with the Transformer of the arena",
			func(c *Config) {
				c.VocabSize, c.MaxLen, c.Tied = 18, 2000, true
			}),
		preset("lra-text", "Text: sentiment of IMDB reviews, byte by byte, with the Transformer of the arena",
			func(c *Config) {
				c.VocabSize, c.MaxLen, c.Classes, c.EmbDim, c.QKVDim, c.MLPDim, c.Heads, c.Layers = 257, 4000, 2, 256,
					256, 1024, 4, 4
			}),
	}
}

// Init makes initial weights for training. Equal seeds give equal weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	return backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		name := s.Name[strings.LastIndex(s.Name, ".")+1:]
		switch {
		case name == "embedding":
			r.Fill(x, 1)
		case name == "pos_embedding":
			r.Fill(x, 0.02)
		case name == "scale":
			for i := range x {
				x[i] = 1
			}
		case name == "bias" && strings.Contains(s.Name, ".MlpBlock_3."):
			r.Fill(x, 1e-6)
		case name == "kernel" && strings.Contains(s.Name, ".MlpBlock_3."):
			r.Uniform(x, s.Shape[1], s.Shape[0])
		case name == "kernel" && len(s.Shape) == 3: // a matrix of d and the features of all heads
			r.Uniform(x, c.EmbDim, c.QKVDim)
		case name == "kernel":
			r.Fill(x, 1/math.Sqrt(float64(s.Shape[0])))
		}
	})
}
