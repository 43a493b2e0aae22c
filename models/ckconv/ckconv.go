// Package ckconv is the family CKConv (Romero, Kuzina, Bekkers, Tomczak, Hoogendoorn, CKConv: Continuous Kernel
// Convolution For Sequential Data, 2022): causal convolutions as long as the sequence, whose kernels a small network
// computes, as in dwromero/ckconv.
//
//	block: a = relu(norm(conv(x))), b = relu(norm(conv(a))), x = relu(b + shortcut(x))
//	conv:  y[t] = bias + Σ_{s≤t} k[L-1-(t-s)] x[s], with k = net(places from -1 to about 1)
//	net:   w₃ f(norm(w₂ f(norm(w₁ r + b₁)) + b₂)) + b₃
//	output = finallyr(x at the last step, or at every step)
//
// The norms of blocks are over all steps and features of a sample, so that no step is known before the last one.
//
// It imports ir, ir/tensor, models, models/backbone and models/config.
package ckconv

import (
	"errors"
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
const Type = "ckconv"

// Config is config.json: the arguments of the released code's networks, and the task.
type Config struct {
	ModelType  string
	Task       string
	Inputs     int
	Outputs    int
	Hidden     int
	Blocks     int
	NetHidden  int
	Activation string
	NetNorm    string
	DimLinear  int
	Bias       bool
	Omega      float64
	Pool       bool
	ID2Label   []string
}

const (
	classification = "classification" // the last step
	every          = "copy"           // every step
)

const (
	sine      = "Sine"
	layerNorm = "LayerNorm"
	batchNorm = "BatchNorm"
)

// activations are the values of kernelnet_activation_function, and the names that essm.ContinuousConv has for them.
var activations = map[string]string{sine: "sine", "ReLU": "relu", "LeakyReLU": "leaky_relu", "Swish": "swish"}

var table = &config.Table[Config]{
	Ignored: []string{"dropout", "weight_dropout"},
	Hub:     true,
	Labels:  func(c *Config) *[]string { return &c.ID2Label },
	Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{Type}, Def: Type},
		{Key: "task", Ref: func(c *Config) any { return &c.Task }, OneOf: []string{classification, every},
			Def: classification},
		{Key: "in_channels", Ref: func(c *Config) any { return &c.Inputs }, Lo: 1, Hi: 1 << 12},
		{Key: "out_channels", Ref: func(c *Config) any { return &c.Outputs }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "hidden_channels", Ref: func(c *Config) any { return &c.Hidden }, Lo: 1, Hi: 1 << 12},
		{Key: "num_blocks", Ref: func(c *Config) any { return &c.Blocks }, Lo: 1, Hi: 1 << 12},
		{Key: "kernelnet_hidden_channels", Ref: func(c *Config) any { return &c.NetHidden }, Lo: 1, Hi: 1 << 16},
		{Key: "kernelnet_activation_function", Ref: func(c *Config) any { return &c.Activation },
			OneOf: []string{sine, "ReLU", "LeakyReLU", "Swish"}},
		{Key: "kernelnet_norm_type", Ref: func(c *Config) any { return &c.NetNorm },
			OneOf: []string{"", layerNorm, batchNorm}, Def: ""},
		{Key: "dim_linear", Ref: func(c *Config) any { return &c.DimLinear }, Lo: 1, Hi: 2, Def: 1},
		{Key: "bias", Ref: func(c *Config) any { return &c.Bias }, Def: true},
		{Key: "omega_0", Ref: func(c *Config) any { return &c.Omega }, Def: 1.0},
		{Key: "pool", Ref: func(c *Config) any { return &c.Pool }, Def: false},
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
	case c.DimLinear != 1:
		return fmt.Errorf("dim_linear: expected 1, sequences, found %d", c.DimLinear)
	case c.Pool:
		return errors.New("pool: expected false, as in all released experiments, found true")
	case c.Omega == 0 && c.Activation == sine:
		return errors.New("omega_0: expected a number above 0 for the activation Sine, found 0")
	}
	if k := len(c.ID2Label); k > 0 && k != c.Outputs {
		return fmt.Errorf("id2label: expected %d names (out_channels), found %d", c.Outputs, k)
	}
	return nil
}

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	out := "the last step"
	if c.Task == every {
		out = "every step out"
	}
	return models.Common{Labels: c.ID2Label, Input: models.Plural(c.Inputs, "feature"), Layers: c.Blocks,
		Width: c.Hidden, Outputs: c.Outputs, Details: []string{"kernels of " + c.Activation + " networks", out}}
}

// inputs is the number of features before block i.
func (c *Config) inputs(i int) int {
	if i == 0 {
		return c.Inputs
	}
	return c.Hidden
}

// norm returns the norm of the inner layers of a kernel's network. Those of sines have none.
func (c *Config) norm() string {
	if c.Activation == sine {
		return ""
	}
	return c.NetNorm
}

func affineSpecs(name string, d int) []models.Spec {
	return []models.Spec{{Name: name + ".weight", Shape: []int{d}}, {Name: name + ".bias", Shape: []int{d}}}
}

// convSpecs lists the tensors of a convolution.
func (c *Config) convSpecs(name string, inputs int) []models.Spec {
	net, q := name+".Kernel.kernel_net.", c.NetHidden
	var all []models.Spec
	linear := func(i, outputs, inputs int) {
		specs := backbone.NormedSpecs(net+strconv.Itoa(i), outputs, inputs, 1)
		if !c.Bias {
			specs = specs[:2]
		}
		all = append(all, specs...)
	}
	norm := func(i int) {
		switch name := net + strconv.Itoa(i); c.norm() {
		case layerNorm:
			all = append(all, affineSpecs(name+".layer_norm", q)...)
		case batchNorm:
			all = append(all, affineSpecs(name, q)...)
			all = append(all, models.Spec{Name: name + ".running_mean", Shape: []int{q}, Statistic: true},
				models.Spec{Name: name + ".running_var", Shape: []int{q}, Statistic: true})
		}
	}
	linear(0, q, 1)
	norm(2)
	linear(4, q, q)
	norm(6)
	linear(8, c.Hidden*inputs, q)
	if c.Bias {
		all = append(all, models.Spec{Name: name + ".bias", Shape: []int{c.Hidden}})
	}
	return append(all, models.Spec{Name: name + ".train_length", Shape: []int{1}, Statistic: true, Int: true})
}

func blockName(i int) string { return "backbone." + strconv.Itoa(i) }

// Specs lists the tensors of a model.
func (c *Config) Specs(models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var all []models.Spec
	for i := range c.Blocks {
		name, inputs := blockName(i), c.inputs(i)
		all = append(all, c.convSpecs(name+".cconv1", inputs)...)
		all = append(all, affineSpecs(name+".norm1.layer_norm", c.Hidden)...)
		all = append(all, c.convSpecs(name+".cconv2", c.Hidden)...)
		all = append(all, affineSpecs(name+".norm2.layer_norm", c.Hidden)...)
		if inputs != c.Hidden {
			all = append(all, models.Spec{Name: name + ".shortcut.0.weight", Shape: []int{c.Hidden, inputs, 1}},
				models.Spec{Name: name + ".shortcut.0.bias", Shape: []int{c.Hidden}})
		}
	}
	return append(all, backbone.LinearSpecs("finallyr", c.Outputs, c.Hidden)...), nil
}

// Build adds the model to a builder.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	if o.Rate != 1 {
		return fmt.Errorf("rate: the places of kernels follow from the length of the sequence; expected 1, found %v",
			o.Rate)
	}
	n := backbone.NewNetwork(b, w, o.Rate, ir.Sym("B"))
	do := func(op string, in ...*ir.Value) *ir.Value { return n.Do(op, in) }
	n.Scope("encoder")
	x := n.Input(models.Input, ir.Tensor(tensor.Float32, ir.Sym("B"), "L", c.Inputs))
	for i := range c.Blocks {
		n.Scope("layers." + strconv.Itoa(i))
		name := blockName(i)
		half := func(x *ir.Value, k string) (*ir.Value, error) {
			y, err := c.conv(n, w, x, name+".cconv"+k)
			if err != nil {
				return nil, err
			}
			norm := name + ".norm" + k + ".layer_norm"
			return do("Relu", n.GroupNorm(y, n.Weight(norm+".weight"), n.Weight(norm+".bias"), 1e-12)), nil
		}
		y, err := half(x, "1")
		if err != nil {
			return err
		}
		if y, err = half(y, "2"); err != nil {
			return err
		}
		if c.inputs(i) != c.Hidden {
			weight := do("Squeeze", n.Weight(name+".shortcut.0.weight"), n.Ints("tap", 2))
			x = n.Op("essm", "Linear", []*ir.Value{x, weight, n.Weight(name + ".shortcut.0.bias")})
		}
		x = do("Relu", do("Add", y, x))
	}
	n.Scope("decoder")
	if c.Task == classification {
		x = n.Op("essm", "Pick", []*ir.Value{x}, ir.A("mode", "last"))
	}
	n.Output(models.Output, n.Linear(x, "finallyr"))
	return nil
}

// conv adds a convolution.
func (c *Config) conv(n *backbone.Network, w models.Weights, x *ir.Value, name string) (*ir.Value, error) {
	do := func(op string, in ...*ir.Value) *ir.Value { return n.Do(op, in) }
	train := tensor.Data[int64](w[name+".train_length"])[0]
	if train == 1 || train > 1<<30 {
		return nil, fmt.Errorf("tensor %s.train_length[0]: expected 0, or 2 to %d, found %d", name, 1<<30, train)
	}
	net := name + ".Kernel.kernel_net."
	in := []*ir.Value{x}
	var norms []*ir.Value
	for i, k := range []string{"0", "4", "8"} {
		weight := do("Squeeze", n.Normed(net+k), n.Ints("tap", 2))
		if i == 0 {
			weight = do("Squeeze", weight, n.Ints("place", 1))
		}
		var bias *ir.Value
		if c.Bias {
			bias = n.Double(n.Weight(net + k + ".bias"))
		} else {
			bias = n.Const("zeros", tensor.New(tensor.Float64, n.Shape(net + k + ".weight_v")[0]))
		}
		norm := net + []string{"2", "6", ""}[i]
		switch {
		case i == 2:
		case c.Activation == sine: // sin(ω₀ x)
			omega := n.Scalar("omega_0", c.Omega)
			weight, bias = do("Mul", weight, omega), do("Mul", bias, omega)
		case c.norm() == layerNorm:
			rows := []*ir.Value{do("Unsqueeze", n.Double(n.Weight(norm+".layer_norm.weight")), n.Ints("row", 0)),
				do("Unsqueeze", n.Double(n.Weight(norm+".layer_norm.bias")), n.Ints("row", 0))}
			norms = append(norms, n.Do("Concat", rows, ir.A("axis", 0)))
		case c.norm() == batchNorm: // with fixed statistics it is part of the layer
			deviation := do("Sqrt", do("Add", n.Double(n.Weight(norm+".running_var")), n.Scalar("epsilon", 1e-5)))
			scale := do("Div", n.Double(n.Weight(norm+".weight")), deviation)
			bias = do("Add", do("Mul", do("Sub", bias, n.Double(n.Weight(norm+".running_mean"))), scale),
				n.Double(n.Weight(norm+".bias")))
			if i > 0 {
				scale = do("Unsqueeze", scale, n.Ints("column", 1))
			}
			weight = do("Mul", weight, scale)
		}
		in = append(in, weight, bias)
	}
	y := n.Op("essm", "ContinuousConv", append(in, norms...), ir.A("activation", activations[c.Activation]),
		ir.A("train_length", train))
	if c.Bias {
		y = do("Add", y, n.Weight(name+".bias"))
	}
	return y, nil
}

func init() {
	models.Register(models.Family{Type: Type, Doc: "CKConv: convolutions with kernels of any length, which networks " +
		"compute",
		New:     func() models.Config { return newConfig() },
		Presets: presets})
}

// presets has the networks of the paper for images as sequences, in its two sizes.
func presets() []models.Preset {
	preset := func(id, doc string, inputs, hidden int, omega float64, length int) models.Preset {
		c := newConfig()
		c.Inputs, c.Outputs, c.Hidden, c.Blocks, c.NetHidden, c.Activation, c.Omega = inputs, 10, hidden, 2, 32, sine,
			omega
		return models.Preset{ID: id, Doc: doc, Config: c, Length: length,
			Init: func(c models.Config, seed uint64) (models.Weights, error) { return Init(c.(*Config), seed) }}
	}
	return []models.Preset{
		preset("ckconv-smnist", "MNIST digits, pixel by pixel, with CKConv", 1, 30, 31.09, 784),
		preset("ckconv-cifar", "CIFAR-10 in color, pixel by pixel, with the wider CKConv", 3, 100, 39.45, 1024),
	}
}

// Init makes initial weights for training. Equal seeds give equal weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	fanIn := 1
	var first []float64 // values of the units of a first layer, each one place behind its zero
	w, err := backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		if len(s.Shape) == 3 && !strings.HasSuffix(s.Name, "_g") {
			fanIn = s.Shape[1] // also for the bias that follows
		}
		name := s.Name[strings.LastIndex(s.Name, ".")+1:]
		switch {
		case strings.Contains(s.Name, ".kernel_net.") && (name == "running_var" || name == "weight"),
			strings.HasSuffix(s.Name, ".layer_norm.weight"):
			for i := range x {
				x[i] = 1
			}
		case strings.HasSuffix(s.Name, ".layer_norm.bias") || name == "running_mean":
		case name == "weight_v": // weight norm undoes the released code's own values of the weights, but not of biases
			r.Bounded(x, 1/math.Sqrt(float64(fanIn)))
		case strings.Contains(s.Name, ".kernel_net.") && name == "bias" && c.Activation == sine:
			r.Bounded(x, 1)
		case strings.HasSuffix(s.Name, ".kernel_net.0.bias") && c.NetHidden > 1: // zeros of the units lie from -1 to 1
			first = make([]float64, len(x))
			for i := range x {
				at, w := 2*float64(i)/float64(len(x)-1)-1, 0.01*r.NormFloat64()
				x[i] = -at * w
				first[i] = float64((at+2/float64(len(x)-1))*w) + x[i]
			}
		case strings.HasSuffix(s.Name, ".kernel_net.4.bias") && c.NetHidden > 1:
			for i := range x {
				for _, v := range first {
					x[i] -= float64(0.01 * r.NormFloat64() * v)
				}
			}
		case s.Name == "finallyr.weight":
			r.Fill(x, 0.01)
		case strings.Contains(s.Name, ".shortcut."):
			r.Bounded(x, 1/math.Sqrt(float64(fanIn)))
		}
	})
	if err == nil {
		backbone.NormLengths(w)
	}
	return w, err
}
