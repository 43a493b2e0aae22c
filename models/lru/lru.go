// Package lru is the family LRU (Orvieto et al., Resurrecting Recurrent Neural Networks for Long Sequences, 2023): a
// discrete diagonal system of all features in each layer, as in NicolasZucchet/minimal-LRU.
//
//	λ̄ = exp(-exp(nu) + i exp(theta)), B̄ = exp(gamma) ⊙ B
//	z[t] = λ̄ z[t-1] + B̄ u[t],  y = Re(C z) + D u
//
// It imports ir, models, models/backbone, models/config and models/flax.
package lru

import (
	"fmt"
	"math"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/models/flax"
)

// Type is the model_type of the family.
const Type = "lru"

// Config is config.json: the options of the released code's command line.
type Config struct {
	ModelType                        string
	DInput, DOutput, DModel, DHidden int
	NLayers                          int
	RMin, RMax, MaxPhase             float64
	Pooling                          string
	Norm                             string
	Prenorm                          bool
	Multidim                         int
	ID2Label                         []string
}

var table = &config.Table[Config]{
	Ignored: []string{"dropout", "lr_base", "lr_factor", "weight_decay", "bsz", "epochs"},
	Hub:     true,
	Labels:  func(c *Config) *[]string { return &c.ID2Label },
	Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{Type}, Def: Type},
		{Key: "d_input", Ref: func(c *Config) any { return &c.DInput }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "d_output", Ref: func(c *Config) any { return &c.DOutput }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "d_model", Ref: func(c *Config) any { return &c.DModel }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "d_hidden", Ref: func(c *Config) any { return &c.DHidden }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "n_layers", Ref: func(c *Config) any { return &c.NLayers }, Lo: 1, Hi: 1 << 12},
		{Key: "r_min", Ref: func(c *Config) any { return &c.RMin }, Def: 0.0},
		{Key: "r_max", Ref: func(c *Config) any { return &c.RMax }, Def: 1.0},
		{Key: "max_phase", Ref: func(c *Config) any { return &c.MaxPhase }, Def: 6.28},
		{Key: "pooling", Ref: func(c *Config) any { return &c.Pooling }, OneOf: []string{"mean", "last", "none"},
			Def: "mean"},
		{Key: "norm", Ref: func(c *Config) any { return &c.Norm }, OneOf: []string{"layer", "batch"}, Def: "batch"},
		{Key: "prenorm", Ref: func(c *Config) any { return &c.Prenorm }, Def: true},
		{Key: "multidim", Ref: func(c *Config) any { return &c.Multidim }, Lo: 1, Hi: backbone.MaxSize, Def: 1},
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
	if c.RMin >= c.RMax || c.RMax > 1 {
		return fmt.Errorf("r_min: expected 0 ≤ r_min < r_max ≤ 1, found %v and %v", c.RMin, c.RMax)
	}
	if k := len(c.ID2Label); k > 0 && k != c.DOutput {
		return fmt.Errorf("id2label: expected %d names (d_output), found %d", c.DOutput, k)
	}
	return nil
}

func (c *Config) frame() *flax.Frame {
	pool := c.Pooling
	if pool == "mean" {
		pool = "pool"
	}
	return &flax.Frame{DInput: c.DInput, DOutput: c.DOutput, DModel: c.DModel, NLayers: c.NLayers, Prenorm: c.Prenorm,
		BatchNorm: c.Norm == "batch", Norm: "normalization", Gate: "full_glu", Pool: pool, Groups: c.Multidim,
		Layer: layer{c}}
}

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	common := c.frame().Common()
	common.Labels = c.ID2Label
	return common
}

// Specs lists the tensors of a model.
func (c *Config) Specs(models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.frame().Specs(), nil
}

// Build adds the model to a builder. The system is discrete, so there is no step size to multiply.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	if o.Rate != 1 {
		return fmt.Errorf("rate: an LRU has no step size; expected 1, found %v", o.Rate)
	}
	return c.frame().Build(b, w, o)
}

// layer is the system of a block.
type layer struct{ c *Config }

// State returns the number of float32 of its state: each state's real and imaginary part.
func (l layer) State() int { return 2 * l.c.DHidden }

// Specs lists the layer's tensors.
func (l layer) Specs(d int, prefix string) []models.Spec {
	n := l.c.DHidden
	return []models.Spec{{Name: prefix + "nu_log", Shape: []int{n}}, {Name: prefix + "theta_log", Shape: []int{n}},
		{Name: prefix + "gamma_log", Shape: []int{n}}, {Name: prefix + "B_re", Shape: []int{n, d}},
		{Name: prefix + "B_im", Shape: []int{n, d}}, {Name: prefix + "C_re", Shape: []int{d, n}},
		{Name: prefix + "C_im", Shape: []int{d, n}}, {Name: prefix + "D", Shape: []int{d}}}
}

// Build adds the layer to the graph.
func (l layer) Build(n *backbone.Network, x, state *ir.Value, prefix string) (y, next *ir.Value) {
	do := func(op string, in ...*ir.Value) *ir.Value { return n.Do(op, in) }
	stored := func(name string) *ir.Value { return n.Double(n.Weight(prefix + name)) }
	system := n.Ints("system", 1, 1, int64(l.c.DHidden))
	aRe := do("Reshape", do("Neg", do("Exp", stored("nu_log"))), system)
	aIm := do("Reshape", do("Exp", stored("theta_log")), system)
	zero := do("Mul", aRe, n.Scalar("zero", 0))
	gamma := do("Unsqueeze", do("Exp", stored("gamma_log")), n.Ints("column", 1))
	heads := n.Ints("heads", 0, 1)
	matrix := func(v *ir.Value) *ir.Value { return do("Unsqueeze", v, heads) }
	in := backbone.Complex{Re: stored("B_re"), Im: stored("B_im")}.Scale(n, gamma)
	outs := 2
	if state == nil {
		outs = 1
	}
	out := n.Ops("essm", "SSM", outs, []*ir.Value{x, aRe, aIm, do("Exp", zero), zero, matrix(in.Re),
		matrix(stored("C_re")), matrix(in.Im), matrix(stored("C_im")), matrix(n.Weight(prefix + "D")), state})
	if state == nil {
		return out[0], nil
	}
	return out[0], out[1]
}

func init() {
	models.Register(models.Family{Type: Type, Doc: "LRU: one discrete diagonal system of all features in each layer",
		New:     func() models.Config { return newConfig() },
		Presets: presets,
		Flax:    &models.Checkpoint{Code: "LRU", Tensor: flax.FirstLayer + "nu_log", Complete: complete}})
}

// presets has a small model for the task of the preset smnist.
func presets() []models.Preset {
	c := newConfig()
	c.DInput, c.DOutput, c.NLayers, c.DModel, c.DHidden = 1, 10, 4, 128, 128
	return []models.Preset{{ID: "lru-smnist", Doc: "MNIST digits, pixel by pixel, with LRU", Config: c, Length: 784,
		Init: func(c models.Config, seed uint64) (models.Weights, error) { return Init(c.(*Config), seed) }}}
}

// Init makes initial weights for training: eigenvalues uniform on a ring. Equal seeds give equal weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	frame := c.frame()
	var radius []float64 // of the layer under way
	return backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		name := s.Name[strings.LastIndex(s.Name, ".")+1:]
		switch {
		case !strings.Contains(s.Name, ".seq."):
			frame.Fill(x, s, name, r)
		case name == "nu_log":
			radius = make([]float64, len(x))
			for i := range x {
				square := float64(r.Float64()*float64(c.RMax*c.RMax-float64(c.RMin*c.RMin))) + float64(c.RMin*c.RMin)
				x[i] = math.Log(-0.5 * math.Log(square))
				radius[i] = math.Sqrt(square)
			}
		case name == "theta_log":
			for i := range x {
				x[i] = math.Log(c.MaxPhase * r.Float64())
			}
		case name == "gamma_log":
			for i := range x {
				x[i] = 0.5 * math.Log(1-float64(radius[i]*radius[i]))
			}
		case name == "B_re" || name == "B_im":
			r.Fill(x, 1/math.Sqrt(2*float64(s.Shape[1])))
		case name == "C_re" || name == "C_im":
			r.Fill(x, 1/math.Sqrt(float64(s.Shape[1])))
		default:
			r.Fill(x, 1)
		}
	})
}
