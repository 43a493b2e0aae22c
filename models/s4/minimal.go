package s4

import (
	"fmt"
	"math"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

// MinimalType is the model_type of the standalone S4D of state-spaces/s4, in the model of its example.
const MinimalType = "s4d-minimal"

// Minimal is config.json of that model:
//
//	λ = -exp(log_A_real) + i·A_imag, Δ = exp(log_dt), zero-order hold
//	block: x = x + layer(norm(x)) or norm(x + layer(x)), layer = GLU(W gelu(K * u + D u) + b)
//	output = decoder(mean of x over time)
type Minimal struct {
	ModelType       string
	SamplingRate    int
	DInput, DOutput int
	DModel, NLayers int
	DState          int
	Prenorm         bool
	ID2Label        []string
}

var minimalTable = &config.Table[Minimal]{
	Ignored: []string{"dropout", "lr"},
	Hub:     true,
	Labels:  func(c *Minimal) *[]string { return &c.ID2Label },
	Fields: []config.Field[Minimal]{
		{Key: "model_type", Ref: func(c *Minimal) any { return &c.ModelType }, OneOf: []string{MinimalType},
			Def: MinimalType},
		{Key: "sampling_rate", Ref: func(c *Minimal) any { return &c.SamplingRate }, Lo: 1, Hi: 1 << 24, Null: true,
			Omit: true},
		{Key: "d_input", Ref: func(c *Minimal) any { return &c.DInput }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "d_output", Ref: func(c *Minimal) any { return &c.DOutput }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "d_model", Ref: func(c *Minimal) any { return &c.DModel }, Lo: 1, Hi: backbone.MaxSize, Def: 256},
		{Key: "n_layers", Ref: func(c *Minimal) any { return &c.NLayers }, Lo: 1, Hi: 1 << 12, Def: 4},
		{Key: "d_state", Ref: func(c *Minimal) any { return &c.DState }, Lo: 2, Hi: backbone.MaxSize, Def: 64,
			OmitDefault: true},
		{Key: "prenorm", Ref: func(c *Minimal) any { return &c.Prenorm }, Def: false},
	},
}

func newMinimal() *Minimal {
	c := &Minimal{}
	minimalTable.Defaults(c)
	return c
}

// Type returns the model_type.
func (c *Minimal) Type() string { return c.ModelType }

// Settings returns the values of config.json by key.
func (c *Minimal) Settings() config.Settings { return minimalTable.Bind(c) }

// Validate checks every value, and the values against each other.
func (c *Minimal) Validate() error {
	if err := minimalTable.Validate(c); err != nil {
		return err
	}
	if c.DState%2 != 0 {
		return fmt.Errorf("d_state: expected an even number, since states come in conjugate pairs, found %d", c.DState)
	}
	if k := len(c.ID2Label); k > 0 && k != c.DOutput {
		return fmt.Errorf("id2label: expected %d names (d_output), found %d", c.DOutput, k)
	}
	return nil
}

// Common returns the settings that all families have.
func (c *Minimal) Common() models.Common {
	norm := "post-norm (layer)"
	if c.Prenorm {
		norm = "pre-norm (layer)"
	}
	return models.Common{SamplingRate: c.SamplingRate, Labels: c.ID2Label, Resamples: true,
		Input: models.Plural(c.DInput, "feature"), Layers: c.NLayers, Width: c.DModel, Outputs: c.DOutput, Causal: true,
		Streams: true, Details: []string{norm}}
}

// states is the number of stored states of a system: that of the tensors, if there are some.
func (c *Minimal) states(w models.Weights) int {
	if t := w["s4_layers.0.kernel.C"]; t != nil && t.Rank() == 3 && t.Dim(1) > 0 && t.Dim(1) <= backbone.MaxSize {
		return t.Dim(1)
	}
	return c.DState / 2
}

// Specs lists the tensors of a model. Those in w decide how many states there are.
func (c *Minimal) Specs(w models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d, n := c.DModel, c.states(w)
	all := backbone.LinearSpecs("encoder", d, c.DInput)
	for i := range c.NLayers {
		layer := fmt.Sprintf("s4_layers.%d.", i)
		all = append(all, models.Spec{Name: layer + "D", Shape: []int{d}},
			models.Spec{Name: layer + "kernel.log_dt", Shape: []int{d}},
			models.Spec{Name: layer + "kernel.log_A_real", Shape: []int{d, n}},
			models.Spec{Name: layer + "kernel.A_imag", Shape: []int{d, n}},
			models.Spec{Name: layer + "kernel.C", Shape: []int{d, n, 2}},
			models.Spec{Name: layer + "output_linear.0.weight", Shape: []int{2 * d, d, 1}}, // a convolution of one tap
			models.Spec{Name: layer + "output_linear.0.bias", Shape: []int{2 * d}})
		norm := fmt.Sprintf("norms.%d.", i)
		all = append(all, models.Spec{Name: norm + "weight", Shape: []int{d}},
			models.Spec{Name: norm + "bias", Shape: []int{d}})
	}
	return append(all, backbone.LinearSpecs("decoder", c.DOutput, d)...), nil
}

// Build adds the model to a builder.
func (c *Minimal) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	n := backbone.NewNetwork(b, w, o.Rate, ir.Sym("B"))
	n.Scope("encoder")
	in := n.Input(models.Input, ir.Tensor(tensor.Float32, ir.Sym("B"), "L", c.DInput))
	x := n.Linear(in, "encoder")
	sizes := make([]int, c.NLayers)
	for i := range sizes {
		sizes[i] = 2 * c.DModel * c.states(w)
	}
	states := n.States(in, sizes)
	for i := range c.NLayers {
		n.Scope(fmt.Sprintf("layers.%d", i))
		norm := func(x *ir.Value) *ir.Value {
			name := fmt.Sprintf("norms.%d.", i)
			return n.Do("LayerNormalization", []*ir.Value{x, n.Weight(name + "weight"), n.Weight(name + "bias")},
				ir.A("axis", -1), ir.A("epsilon", 1e-5))
		}
		y := x
		if c.Prenorm {
			y = norm(y)
		}
		y, states[i] = c.layer(n, y, states[i], fmt.Sprintf("s4_layers.%d.", i))
		if x = n.Do("Add", []*ir.Value{x, y}); !c.Prenorm {
			x = norm(x)
		}
	}
	n.Scope("decoder")
	n.Output(models.Output, n.Linear(n.Op("essm", "Pick", []*ir.Value{x}, ir.A("mode", "pool")), "decoder"))
	n.NextStates(states)
	return nil
}

func (c *Minimal) layer(n *backbone.Network, x, state *ir.Value, prefix string) (y, next *ir.Value) {
	kernel := prefix + "kernel."
	stored := func(name string) *ir.Value { return n.Double(n.Weight(kernel + name)) }
	s := system{n: n, features: c.DModel, channels: 1, method: "zoh"}
	first, last := n.Ints("first", 0), n.Ints("last", 1)
	s.re = s.each(n.Do("Neg", []*ir.Value{n.Do("Exp", []*ir.Value{stored("log_A_real")})}), c.DModel)
	s.im = s.each(stored("A_imag"), c.DModel)
	s.dt = s.each(n.Do("Unsqueeze", []*ir.Value{n.Do("Exp", []*ir.Value{stored("log_dt")}), last}), c.DModel)
	out := n.Complex(n.Do("Unsqueeze", []*ir.Value{stored("C"), first}))
	direct := n.Do("Unsqueeze", []*ir.Value{n.Weight(prefix + "D"), n.Ints("axes", 0, 2)})
	y, next = s.apply(x, out, direct, state, "forward")
	weight := n.Do("Squeeze", []*ir.Value{n.Weight(prefix + "output_linear.0.weight"), n.Ints("tap", 2)})
	y = n.Op("essm", "Linear", []*ir.Value{n.Activation(y, "gelu"), weight, n.Weight(prefix + "output_linear.0.bias")})
	return n.Activation(y, "glu"), next
}

// InitMinimal makes initial weights for training. Equal seeds give equal weights.
func InitMinimal(c *Minimal, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	fanIn := 1
	return backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		name := s.Name[strings.LastIndex(s.Name, ".")+1:]
		switch {
		case strings.HasPrefix(s.Name, "norms."):
			if name == "weight" {
				for i := range x {
					x[i] = 1
				}
			}
		case name == "D":
			r.Fill(x, 1)
		case name == "C":
			r.Fill(x, math.Sqrt(0.5))
		case name == "log_dt":
			lo, hi := math.Log(1e-3), math.Log(1e-1)
			for i := range x {
				x[i] = lo + float64(r.Float64()*(hi-lo))
			}
		case name == "log_A_real":
			for i := range x {
				x[i] = math.Log(0.5)
			}
		case name == "A_imag":
			for i := range x {
				x[i] = math.Pi * float64(i%s.Shape[1])
			}
		default:
			if name == "weight" {
				fanIn = s.Shape[1] // also for the bias that follows
			}
			bound := 1 / math.Sqrt(float64(fanIn))
			for i := range x {
				x[i] = float64(2*r.Float64()-1) * bound
			}
		}
	})
}
