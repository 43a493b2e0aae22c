// Package cdil is the family CDIL-CNN (Cheng, Khalitov, Yu, Zhang, Yang, Classification of Long Sequential Data using
// Circular Dilated Convolutional Neural Networks, 2022): residual blocks of one dilated convolution each, as in
// LeiCheng-no/CDIL-CNN, and the other networks of that code.
//
//	c[t] = b + Σ_j W[:,:,j] x[t + j·2ⁱ - p], in block i
//	x = relu(c) + x, where x passes a linear layer if the number of features changes
//	output = linear(mean of x over time); TCN: linear(last step)
//
// CDIL wraps around the ends of the sequence, with p = ⌊2ⁱ(k-1)/2⌋; DIL and CNN have zeros there, CNN is not dilated;
// TCN looks back only, with p = 2ⁱ(k-1).
//
// It imports ir, ir/tensor, models, models/backbone and models/config.
package cdil

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
const Type = "cdil-cnn"

// Values of the key model.
const (
	circular = "CDIL" // dilated, around the ends
	dilated  = "DIL"
	plain    = "CNN"
	causal   = "TCN"
)

// Config is config.json: the arguments of the released code's CONV.
type Config struct {
	ModelType   string
	Task        string
	Model       string
	InputSize   int
	OutputSize  int
	NumChannels []int
	KernelSize  int
	UseEmbed    bool
	CharVocab   int
	FixLength   bool
	ID2Label    []string
}

const (
	maxTaps   = 1 << 10
	maxBlocks = 20 // the last one's taps are 2^19 steps apart
	retrieval = "retrieval_4000"
)

var table = &config.Table[Config]{
	Hub: true,
	Refused: map[string]string{
		"deformable": "deformable convolutions are not supported",
		"dynamic":    "convolutions of sequences in parts are not supported",
	},
	Labels: func(c *Config) *[]string { return &c.ID2Label },
	Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{Type}, Def: Type},
		{Key: "task", Ref: func(c *Config) any { return &c.Task }, Def: ""},
		{Key: "model", Ref: func(c *Config) any { return &c.Model }, OneOf: []string{circular, dilated, plain, causal},
			Def: circular},
		{Key: "input_size", Ref: func(c *Config) any { return &c.InputSize }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "output_size", Ref: func(c *Config) any { return &c.OutputSize }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "num_channels", Ref: func(c *Config) any { return &c.NumChannels }, Lo: 1, Hi: 1 << 16},
		{Key: "kernel_size", Ref: func(c *Config) any { return &c.KernelSize }, Lo: 1, Hi: maxTaps},
		{Key: "use_embed", Ref: func(c *Config) any { return &c.UseEmbed }, Def: false},
		{Key: "char_vocab", Ref: func(c *Config) any { return &c.CharVocab }, Lo: 1, Hi: 1 << 26, Null: true},
		{Key: "fix_length", Ref: func(c *Config) any { return &c.FixLength }, Def: true},
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
	switch {
	case c.Task == retrieval:
		return fmt.Errorf("task: %s has its classifier in another module of the released code, which is not supported",
			retrieval)
	case len(c.NumChannels) > maxBlocks:
		return fmt.Errorf("num_channels: expected at most %d blocks, found %d", maxBlocks, len(c.NumChannels))
	case c.KernelSize%2 == 0 && c.Model != causal:
		return fmt.Errorf("kernel_size: expected an odd number of taps for model %s, whose first convolution "+
			"shortens the sequence otherwise, found %d", c.Model, c.KernelSize)
	case c.UseEmbed && c.CharVocab == 0:
		return fmt.Errorf("char_vocab: is missing, expected the number of tokens, since use_embed is true")
	}
	if k := len(c.ID2Label); k > 0 && k != c.OutputSize {
		return fmt.Errorf("id2label: expected %d names (output_size), found %d", c.OutputSize, k)
	}
	return nil
}

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	width := 0
	if n := len(c.NumChannels); n > 0 {
		width = c.NumChannels[n-1]
	}
	common := models.Common{Labels: c.ID2Label, Input: models.Plural(c.InputSize, "feature"),
		Layers: len(c.NumChannels),
		Width:  width, Outputs: c.OutputSize, Causal: c.Model == causal, Streams: c.Model == causal,
		Details: []string{c.Model, models.Plural(c.KernelSize, "tap")}}
	if c.UseEmbed {
		common.Input = "tokens"
	}
	return common
}

func blockName(i int) string { return "conv.conv_net." + strconv.Itoa(i) }

// Extra reports whether a checkpoint may have a tensor besides: the code's TCN stores each convolution a second time.
func (c *Config) Extra(name string) bool {
	rest, ok := strings.CutPrefix(name, "conv.conv_net.")
	if !ok || c.Model != causal {
		return false
	}
	block, rest, _ := strings.Cut(rest, ".")
	i, err := strconv.Atoi(block)
	return err == nil && i >= 0 && i < len(c.NumChannels) && strings.HasPrefix(rest, "tcn.0.")
}

// inputs is the number of features before block i.
func (c *Config) inputs(i int) int {
	if i == 0 {
		return c.InputSize
	}
	return c.NumChannels[i-1]
}

// Specs lists the tensors of a model.
func (c *Config) Specs(models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var all []models.Spec
	if c.UseEmbed {
		all = append(all, models.Spec{Name: "embedding.weight", Shape: []int{c.CharVocab, c.InputSize}})
	}
	for i, d := range c.NumChannels {
		name, before := blockName(i), c.inputs(i)
		all = append(all, backbone.NormedSpecs(name+".conv", d, before, c.KernelSize)...)
		if d != before {
			all = append(all, models.Spec{Name: name + ".res.weight", Shape: []int{d, before, 1}},
				models.Spec{Name: name + ".res.bias", Shape: []int{d}})
		}
	}
	return append(all, backbone.LinearSpecs("linear", c.OutputSize, c.NumChannels[len(c.NumChannels)-1])...), nil
}

// Build adds the model to a builder.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	if o.Rate != 1 {
		return fmt.Errorf("rate: a convolution of taps has no step size; expected 1, found %v", o.Rate)
	}
	n := backbone.NewNetwork(b, w, o.Rate, ir.Sym("B"))
	var x, lengths *ir.Value
	n.Scope("encoder")
	if c.UseEmbed {
		x = n.Input(models.Input, ir.Tensor(tensor.Int64, ir.Sym("B"), "L"))
		x = n.Op("essm", "Embedding", []*ir.Value{x, n.Weight("embedding.weight")})
	} else {
		x = n.Input(models.Input, ir.Tensor(tensor.Float32, ir.Sym("B"), "L", c.InputSize))
	}
	if c.Model == causal && !c.FixLength {
		n.Scope("")
		lengths = n.Input(models.Lengths, &ir.OptionalType{Elem: ir.Tensor(tensor.Int64, ir.Sym("B"))})
	}
	swap := ir.A("perm", []int64{0, 2, 1})
	x = n.Do("Transpose", []*ir.Value{x}, swap)
	for i := range c.NumChannels {
		n.Scope("layers." + strconv.Itoa(i))
		x = c.block(n, x, i)
	}
	n.Scope("decoder")
	mode := "pool"
	if c.Model == causal {
		mode = "last"
	}
	x = n.Op("essm", "Pick", []*ir.Value{n.Do("Transpose", []*ir.Value{x}, swap), lengths}, ir.A("mode", mode))
	n.Output(models.Output, n.Linear(x, "linear"))
	return nil
}

// block adds block i to features by steps.
func (c *Config) block(n *backbone.Network, x *ir.Value, i int) *ir.Value {
	name := blockName(i)
	apart := int64(1)
	if c.Model != plain {
		apart <<= i
	}
	reach := apart * int64(c.KernelSize-1)
	before := reach / 2
	if c.Model == causal {
		before = reach
	}
	pads, in := []int64{before, reach - before}, x
	if c.Model == circular && reach > 0 {
		in = n.Do("Pad", []*ir.Value{x, n.Ints("pads", pads...), nil, n.Ints("time", 2)}, ir.A("mode", "wrap"))
		pads = []int64{0, 0}
	}
	weight := n.Do("Cast", []*ir.Value{n.Normed(name + ".conv")}, ir.A("to", 1))
	y := n.Do("Conv", []*ir.Value{in, weight, n.Weight(name + ".conv.bias")}, ir.A("dilations", []int64{apart}),
		ir.A("pads", pads))
	if c.inputs(i) != c.NumChannels[i] {
		x = n.Do("Conv", []*ir.Value{x, n.Weight(name + ".res.weight"), n.Weight(name + ".res.bias")})
	}
	return n.Do("Add", []*ir.Value{n.Do("Relu", []*ir.Value{y}), x})
}

func init() {
	models.Register(models.Family{Type: Type, Doc: "CDIL-CNN: residual blocks of circular dilated convolutions",
		New:     func() models.Config { return newConfig() },
		Presets: presets})
}

// presets has networks of the paper for the Long Range Arena.
func presets() []models.Preset {
	preset := func(id, doc string, model string, blocks, classes, length int) models.Preset {
		c := newConfig()
		c.Task, c.Model, c.InputSize, c.OutputSize, c.KernelSize, c.UseEmbed, c.CharVocab = "lra", model, 64, classes,
			3, true, 256
		for range blocks {
			c.NumChannels = append(c.NumChannels, 64)
		}
		return models.Preset{ID: id, Doc: doc, Config: c, Length: length,
			Init: func(c models.Config, seed uint64) (models.Weights, error) { return Init(c.(*Config), seed) }}
	}
	return []models.Preset{
		preset("cdil-image", "Image: CIFAR-10 in grey, pixel by pixel, with CDIL-CNN", circular, 9, 10, 1024),
		preset("cdil-text", "Text: sentiment of IMDB reviews, byte by byte, with CDIL-CNN", circular, 11, 2, 4000),
		preset("tcn-image", "Image: CIFAR-10 in grey, pixel by pixel, with the TCN of CDIL-CNN's code", causal, 9, 10,
			1024),
	}
}

// Init makes initial weights for training. Equal seeds give equal weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	fanIn := 1
	w, err := backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		if len(s.Shape) > 1 && s.Shape[1] > 0 && !strings.HasSuffix(s.Name, "_g") {
			fanIn = s.Size() / s.Shape[0] // also for the bias that follows
		}
		switch {
		case s.Name == "embedding.weight":
			r.Fill(x, 1)
		case strings.Contains(s.Name, ".res.") || strings.HasSuffix(s.Name, ".conv.bias"):
			r.Fill(x, 0.01)
		default: // weight norm undoes the released code's own values of weight_v
			r.Bounded(x, 1/math.Sqrt(float64(fanIn)))
		}
	})
	if err == nil {
		backbone.NormLengths(w)
	}
	return w, err
}
