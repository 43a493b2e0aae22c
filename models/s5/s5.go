// Package s5 is the family S5 (Smith, Warrington, Linderman, Simplified State Space Layers for Sequence Modeling,
// 2023): one diagonal system of all features in each layer, as in lindermanlab/S5.
//
//	zoh: Λ̄ = exp(ΛΔ), B̄ = (Λ̄ - 1)/Λ · B;  bilinear: Λ̄ = (1 + ΔΛ/2)/(1 - ΔΛ/2), B̄ = Δ/(1 - ΔΛ/2) · B
//	z[t] = Λ̄ z[t-1] + B̄ u[t],  y = γ Re(C z) + D u, with γ = 2 where one of each conjugate pair is stored
//	bidirectional: also γ Re(C₂ Σ_{j≥t} Λ̄^{j-t} B̄ u[j])
//
// It imports ir, models, models/backbone, models/config and models/flax, and ops/essm/spectral for initialization.
package s5

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/models/flax"
)

// Type is the model_type of the family.
const Type = "s5"

// Config is config.json: the options of the released code's command line.
type Config struct {
	ModelType      string
	SamplingRate   int
	DInput         int
	DOutput        int
	NLayers        int
	DModel         int
	SSMSize        int
	Blocks         int
	CInit          string
	Discretization string
	Mode           string
	Activation     string
	ConjSym        bool
	ClipEigs       bool
	Bidirectional  bool
	DtMin, DtMax   float64
	Prenorm        bool
	BatchNorm      bool
	Padded         bool
	Retrieval      bool
	StepRescale    float64
	ID2Label       []string
}

const maxLayers = 1 << 12

var table = &config.Table[Config]{
	Ignored: []string{"bn_momentum", "p_dropout", "dropout", "lr", "ssm_lr_base", "lr_factor", "weight_decay", "bsz",
		"epochs", "warmup_end", "jax_seed", "opt_config", "dt_global", "cosine_anneal", "USE_WANDB", "wandb_project",
		"wandb_entity", "dir_name", "dataset", "early_stop_patience", "lr_min", "reduce_factor", "lr_patience"},
	Hub:    true,
	Labels: func(c *Config) *[]string { return &c.ID2Label },
	Fields: []config.Field[Config]{
		{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{Type}, Def: Type},
		{Key: "sampling_rate", Ref: func(c *Config) any { return &c.SamplingRate }, Lo: 1, Hi: 1 << 24, Null: true,
			Omit: true},
		{Key: "d_input", Ref: func(c *Config) any { return &c.DInput }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "d_output", Ref: func(c *Config) any { return &c.DOutput }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "n_layers", Ref: func(c *Config) any { return &c.NLayers }, Lo: 1, Hi: maxLayers},
		{Key: "d_model", Ref: func(c *Config) any { return &c.DModel }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "ssm_size_base", Ref: func(c *Config) any { return &c.SSMSize }, Lo: 1, Hi: backbone.MaxSize},
		{Key: "blocks", Ref: func(c *Config) any { return &c.Blocks }, Lo: 1, Hi: backbone.MaxSize, Def: 1},
		{Key: "C_init", Ref: func(c *Config) any { return &c.CInit },
			OneOf: []string{"trunc_standard_normal", "lecun_normal", "complex_normal"}, Def: "trunc_standard_normal"},
		{Key: "discretization", Ref: func(c *Config) any { return &c.Discretization },
			OneOf: []string{"zoh", "bilinear"}, Def: "zoh"},
		{Key: "mode", Ref: func(c *Config) any { return &c.Mode }, OneOf: []string{"pool", "last"}, Def: "pool"},
		{Key: "activation_fn", Ref: func(c *Config) any { return &c.Activation }, OneOf: flax.Gates, Def: "half_glu1"},
		{Key: "conj_sym", Ref: func(c *Config) any { return &c.ConjSym }, Def: true},
		{Key: "clip_eigs", Ref: func(c *Config) any { return &c.ClipEigs }, Def: false},
		{Key: "bidirectional", Ref: func(c *Config) any { return &c.Bidirectional }, Def: false},
		{Key: "dt_min", Ref: func(c *Config) any { return &c.DtMin }, Def: 1e-3},
		{Key: "dt_max", Ref: func(c *Config) any { return &c.DtMax }, Def: 1e-1},
		{Key: "prenorm", Ref: func(c *Config) any { return &c.Prenorm }, Def: true},
		{Key: "batchnorm", Ref: func(c *Config) any { return &c.BatchNorm }, Def: true},
		{Key: "padded", Ref: func(c *Config) any { return &c.Padded }, Def: false},
		{Key: "retrieval", Ref: func(c *Config) any { return &c.Retrieval }, Def: false},
		{Key: "step_rescale", Ref: func(c *Config) any { return &c.StepRescale }, Def: 1.0},
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
	switch size := c.SSMSize / c.Blocks; {
	case c.SSMSize%c.Blocks != 0:
		return fmt.Errorf("blocks: expected a divisor of ssm_size_base %d, found %d", c.SSMSize, c.Blocks)
	case c.ConjSym && size%2 != 0:
		return fmt.Errorf("ssm_size_base: expected an even size of each block with conj_sym, found %d", size)
	case size > maxBlock:
		return fmt.Errorf("ssm_size_base: expected blocks of at most %d states, found %d", maxBlock, size)
	case c.DtMin <= 0 || c.DtMin > c.DtMax:
		return fmt.Errorf("dt_min: expected step sizes 0 < dt_min ≤ dt_max, found %v and %v", c.DtMin, c.DtMax)
	case c.StepRescale <= 0:
		return fmt.Errorf("step_rescale: expected a number above 0, found %v", c.StepRescale)
	case c.Retrieval && c.Mode != "pool":
		return fmt.Errorf("mode: expected pool for retrieval, found %s", c.Mode)
	}
	if k := len(c.ID2Label); k > 0 && k != c.DOutput {
		return fmt.Errorf("id2label: expected %d names (d_output), found %d", c.DOutput, k)
	}
	return nil
}

// maxBlock bounds the size of a HiPPO matrix.
const maxBlock = 2048

// states is the number of stored states.
func (c *Config) states() int {
	if c.ConjSym {
		return c.SSMSize / 2
	}
	return c.SSMSize
}

func (c *Config) frame() *flax.Frame {
	return &flax.Frame{DInput: c.DInput, DOutput: c.DOutput, DModel: c.DModel, NLayers: c.NLayers, Prenorm: c.Prenorm,
		BatchNorm: c.BatchNorm, Norm: "norm", Gate: c.Activation, Pool: c.Mode, Lengths: c.Padded && c.Mode == "pool",
		Retrieval: c.Retrieval, Layer: layer{c}}
}

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	common := c.frame().Common()
	common.SamplingRate, common.Labels, common.Resamples = c.SamplingRate, c.ID2Label, true
	return common
}

// Specs lists the tensors of a model.
func (c *Config) Specs(models.Weights) ([]models.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.frame().Specs(), nil
}

// Build adds the model to a builder.
func (c *Config) Build(b *ir.Builder, w models.Weights, o models.BuildOptions) error {
	return c.frame().Build(b, w, o)
}

// layer is the system of a block.
type layer struct{ c *Config }

// State returns the number of float32 of its state: each state's real and imaginary part.
func (l layer) State() int {
	if l.c.Bidirectional {
		return 0
	}
	return 2 * l.c.states()
}

// one reports whether both directions are in one tensor C.
func (l layer) one() bool { return !l.c.Bidirectional || l.c.CInit == "complex_normal" }

// Specs lists the layer's tensors.
func (l layer) Specs(d int, prefix string) []models.Spec {
	p := l.c.states()
	all := []models.Spec{{Name: prefix + "Lambda_re", Shape: []int{p}}, {Name: prefix + "Lambda_im", Shape: []int{p}},
		{Name: prefix + "B", Shape: []int{p, d, 2}}}
	switch {
	case !l.one():
		all = append(all, models.Spec{Name: prefix + "C1", Shape: []int{d, p, 2}},
			models.Spec{Name: prefix + "C2", Shape: []int{d, p, 2}})
	case l.c.Bidirectional:
		all = append(all, models.Spec{Name: prefix + "C", Shape: []int{d, 2 * p, 2}})
	default:
		all = append(all, models.Spec{Name: prefix + "C", Shape: []int{d, p, 2}})
	}
	return append(all, models.Spec{Name: prefix + "D", Shape: []int{d}},
		models.Spec{Name: prefix + "log_step", Shape: []int{p, 1}})
}

// Build adds the layer to the graph.
func (l layer) Build(n *backbone.Network, x, state *ir.Value, prefix string) (y, next *ir.Value) {
	do := func(op string, in ...*ir.Value) *ir.Value { return n.Do(op, in) }
	stored := func(name string) *ir.Value { return n.Double(n.Weight(prefix + name)) }
	p, d := l.c.states(), l.c.DModel
	system := n.Ints("system", 1, 1, int64(p))
	re := stored("Lambda_re")
	if l.c.ClipEigs {
		re = do("Min", re, n.Scalar("most", -1e-4))
	}
	dt := do("Add", do("Reshape", stored("log_step"), system), do("Log", n.Scalar("step_rescale", l.c.StepRescale)))
	discrete := n.Ops("essm", "Discretize", 4, []*ir.Value{do("Reshape", re, system),
		do("Reshape", stored("Lambda_im"), system), dt}, ir.A("method", l.c.Discretization), ir.A("rate", n.Rate))
	in := n.Complex(stored("B"))
	gamma := n.Scalar("gamma", 1)
	if l.c.ConjSym {
		gamma = n.Scalar("gamma", 2)
	}
	half := func(name string, from int) backbone.Complex {
		c := stored(name)
		if l.c.Bidirectional && l.one() {
			c = do("Slice", c, n.Ints("from", int64(from)), n.Ints("to", int64(from+p)), n.Ints("axis", 1))
		}
		return n.Complex(c).Scale(n, gamma)
	}
	names := [2]string{"C", "C"}
	if !l.one() {
		names = [2]string{"C1", "C2"}
	}
	matrix := func(v *ir.Value) *ir.Value { return do("Unsqueeze", v, n.Ints("heads", 0, 1)) }
	forward := half(names[0], 0)
	ssm := func(out backbone.Complex, direct, state *ir.Value, direction string, outs int) []*ir.Value {
		return n.Ops("essm", "SSM", outs, []*ir.Value{x, discrete[0], discrete[1], discrete[2], discrete[3],
			matrix(in.Re), matrix(out.Re), matrix(in.Im), matrix(out.Im), direct, state}, ir.A("direction", direction))
	}
	if !l.c.Bidirectional {
		direct := do("Unsqueeze", n.Weight(prefix+"D"), n.Ints("heads", 0, 1))
		if state == nil {
			return ssm(forward, direct, nil, "forward", 1)[0], nil
		}
		both := ssm(forward, direct, state, "forward", 2)
		return both[0], both[1]
	}
	// The backward half includes step t, that of SSM begins at t+1: C₂ Λ̄ in place of C₂, and step t in D.
	backward := half(names[1], p)
	row := func(v *ir.Value) *ir.Value { return do("Reshape", v, n.Ints("row", 1, int64(p))) }
	column := func(v *ir.Value) *ir.Value { return do("Reshape", v, n.Ints("column", int64(p), 1)) }
	size := do("Exp", row(discrete[0]))
	value := backbone.Complex{Re: do("Mul", size, do("Cos", row(discrete[1]))),
		Im: do("Mul", size, do("Sin", row(discrete[1])))}
	discreteIn := backbone.Complex{Re: column(discrete[2]), Im: column(discrete[3])}.Mul(n, in)
	same := do("Sub", do("MatMul", backward.Re, discreteIn.Re), do("MatMul", backward.Im, discreteIn.Im))
	diagonal := do("Mul", n.Const("eye", identity(d)), stored("D"))
	direct := do("Unsqueeze", do("Add", diagonal, same), n.Ints("heads", 0, 1))
	y = do("Add", ssm(forward, direct, nil, "forward", 1)[0], ssm(backward.Mul(n, value), nil, nil, "backward", 1)[0])
	return y, nil
}

func identity(d int) *tensor.Tensor {
	t := tensor.New(tensor.Float64, d, d)
	for i := range d {
		tensor.Data[float64](t)[i*d+i] = 1
	}
	return t
}
