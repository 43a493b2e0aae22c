// Package minrnn is the families minGRU and minLSTM (Feng et al., Were RNNs All We Needed?, 2024), as in
// lucidrains/minGRU-pytorch: one layer, whose gates depend on its input alone.
//
//	minGRU   [u, z] = to_hidden_and_gate(x),  h[t] = σ(-z) h[t-1] + σ(z) g(u),  g(u) = u + ½ for u ≥ 0, else σ(u)
//	minLSTM  [u, f, i] = to_hidden_and_f_i_gate(x),  h[t] = (σ(f) h[t-1] + σ(i) g(u))/(σ(f) + σ(i))
//	output = to_out(h), or h
//
// It imports ir, ir/tensor, models, models/backbone and models/config.
package minrnn

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

// The families' types.
const (
	GRU  = "mingru"
	LSTM = "minlstm"
)

// Config is config.json: the arguments of the released code's constructor.
type Config struct {
	ModelType string
	Dim       int
	Expansion float64 // features of the state for each of the input
	ProjOut   string  // true, false; empty: where Expansion is not 1
}

var tables = map[string]*config.Table[Config]{GRU: tableOf(GRU), LSTM: tableOf(LSTM)}

func tableOf(kind string) *config.Table[Config] {
	return &config.Table[Config]{Hub: true, Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{kind}, Def: kind},
		{Key: "dim", Ref: func(c *Config) any { return &c.Dim }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "expansion_factor", Ref: func(c *Config) any { return &c.Expansion }, Def: 1.0},
		{Key: "proj_out", Ref: func(c *Config) any { return &c.ProjOut }, OneOf: []string{"true", "false"},
			Bare: true, Null: true},
	}}
}

func newConfig(kind string) *Config {
	c := &Config{ModelType: kind}
	tables[kind].Defaults(c)
	return c
}

// Type returns the model_type.
func (c *Config) Type() string { return c.ModelType }

// Settings returns the values of config.json by key.
func (c *Config) Settings() config.Settings { return tables[c.ModelType].Bind(c) }

// Validate checks every value, and the values against each other.
func (c *Config) Validate() error {
	if err := tables[c.ModelType].Validate(c); err != nil {
		return err
	}
	if n := float64(c.Dim) * c.Expansion; n < 1 || n > backbone.MaxSize {
		return fmt.Errorf("expansion_factor: expected 1 to %d features of the state, found %v times %d",
			backbone.MaxSize, c.Expansion, c.Dim)
	}
	return nil
}

// inner is the number of features of the state.
func (c *Config) inner() int { return int(float64(c.Dim) * c.Expansion) }

// projects reports whether there is a linear layer behind the state.
func (c *Config) projects() bool {
	return c.ProjOut == "true" || c.ProjOut == "" && c.Expansion != 1
}

// linear returns the name of the linear layer of state and gates, and their number.
func (c *Config) linear() (name string, parts int) {
	if c.ModelType == LSTM {
		return "to_hidden_and_f_i_gate.weight", 3
	}
	return "to_hidden_and_gate.weight", 2
}

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	outputs := c.inner()
	if c.projects() {
		outputs = c.Dim
	}
	return models.Common{Input: models.Plural(c.Dim, "feature"), Layers: 1, Width: c.inner(), Outputs: outputs,
		Causal: true, Streams: true}
}

// Specs lists the tensors of a model.
func (c *Config) Specs(models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	name, parts := c.linear()
	all := []models.Spec{{Name: name, Shape: []int{parts * c.inner(), c.Dim}}}
	if c.projects() {
		all = append(all, models.Spec{Name: "to_out.weight", Shape: []int{c.Dim, c.inner()}})
	}
	return all, nil
}

// Build adds the model to a builder, from weights that models.Check accepts.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	if o.Rate != 1 {
		return fmt.Errorf("rate: a %s has no step size; expected 1, found %v", c.ModelType, o.Rate)
	}
	n := backbone.NewNetwork(b, w, o.Rate, ir.Sym("B"))
	n.Scope("layer")
	in := n.Input(models.Input, ir.Tensor(tensor.Float32, ir.Sym("B"), "L", c.Dim))
	states := n.States(in, []int{c.inner()})
	n.Scope("layer")
	name, parts := c.linear()
	weights := n.Ops("", "Split", parts, []*ir.Value{n.Weight(name)}, ir.A("axis", 0), ir.A("num_outputs", parts))
	u := make([]*ir.Value, parts)
	for i := range u {
		u[i] = n.Op("essm", "Linear", []*ir.Value{in, weights[i]})
	}
	sigmoid := func(x *ir.Value) *ir.Value { return n.Do("Sigmoid", []*ir.Value{x}) }
	neg := func(x *ir.Value) *ir.Value { return n.Do("Neg", []*ir.Value{x}) }
	// g(u) = max(u, 0) + σ(min(u, 0))
	least := n.Do("Min", []*ir.Value{u[0], n.Const("zero", tensor.Scalar(float32(0)))})
	g := n.Do("Add", []*ir.Value{n.Do("Relu", u[:1]), sigmoid(least)})
	gate := u[1] // of what is added; the factor of the state is that of -gate
	if c.ModelType == LSTM {
		// σ(i)/(σ(f) + σ(i)) = σ(softplus(-f) - softplus(-i)), which no underflow spoils
		gate = n.Do("Sub", []*ir.Value{n.Do("Softplus", []*ir.Value{neg(u[1])}),
			n.Do("Softplus", []*ir.Value{neg(u[2])})})
	}
	out := n.Ops("essm", "GatedScan", 2, []*ir.Value{sigmoid(neg(gate)), n.Do("Mul", []*ir.Value{sigmoid(gate), g}),
		states[0]})
	y := out[0]
	if c.projects() {
		y = n.Linear(y, "to_out")
	}
	n.Output(models.Output, y)
	n.NextStates([]*ir.Value{out[1]})
	return nil
}

func init() {
	for kind, doc := range map[string]string{GRU: "minGRU: a GRU whose gates depend on its input alone",
		LSTM: "minLSTM: an LSTM whose gates depend on its input alone"} {
		models.Register(models.Family{Type: kind, Doc: doc, New: func() models.Config { return newConfig(kind) },
			Presets: func() []models.Preset {
				c := newConfig(kind)
				c.Dim = 512
				name, _, _ := strings.Cut(doc, ":")
				return []models.Preset{{ID: kind + "-512", Doc: "one layer of " + name + ", of 512 features", Config: c,
					Length: 1024, Init: func(c models.Config, seed uint64) (models.Weights,
						error) {
						return Init(c.(*Config), seed)
					}}}
			}})
	}
}

// Init makes initial weights for training. Equal seeds give equal weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	return backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		bound := 1 / math.Sqrt(float64(s.Shape[1]))
		for i := range x {
			x[i] = float64(2*r.Float64()-1) * bound
		}
	})
}
