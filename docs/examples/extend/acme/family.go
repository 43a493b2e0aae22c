package acme

import (
	"math"
	"math/rand/v2"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// ModelType is the family's model_type.
const ModelType = "acme-center"

// Config is config.json: a linear layer on centered features.
type Config struct {
	ModelType       string
	Inputs, Outputs int
}

// table lists the keys. Reading, writing, --set and messages follow from it.
var table = &config.Table[Config]{Fields: []config.Field[Config]{
	{Key: "model_type", Ref: func(c *Config) any { return &c.ModelType }, OneOf: []string{ModelType}, Def: ModelType},
	{Key: "inputs", Ref: func(c *Config) any { return &c.Inputs }, Lo: 1, Hi: 1 << 16},
	{Key: "outputs", Ref: func(c *Config) any { return &c.Outputs }, Lo: 1, Hi: 1 << 16},
}}

func newConfig() *Config {
	c := new(Config)
	table.Defaults(c)
	return c
}

// Type returns the model_type.
func (c *Config) Type() string { return ModelType }

// Settings returns the values by key.
func (c *Config) Settings() config.Settings { return table.Bind(c) }

// Validate checks the values.
func (c *Config) Validate() error { return table.Validate(c) }

// Common returns the settings that all families have.
func (c *Config) Common() models.Common {
	return models.Common{Input: models.Plural(c.Inputs, "feature"), Layers: 1, Width: c.Inputs, Outputs: c.Outputs,
		Causal: true, Streams: true, Resamples: true}
}

// Specs lists the tensors of the checkpoint.
func (c *Config) Specs(models.Weights) ([]models.Spec, error) {
	return []models.Spec{{Name: "weight", Shape: []int{c.Outputs, c.Inputs}}}, c.Validate()
}

// Build makes the graph.
func (c *Config) Build(b *ir.Builder, w models.Weights, _ models.BuildOptions) error {
	b.Import(Center.Domain, Center.Since)
	x := b.Input(models.Input, ir.Tensor(tensor.Float32, "B", "L", c.Inputs))
	y := b.Op(Center.Domain, Center.Name, []*ir.Value{x})
	b.Output(models.Output, b.Op("essm", "Linear", []*ir.Value{y, models.Weight(b, w, "weight")}))
	return nil
}

func init() {
	models.Register(models.Family{Type: ModelType, Doc: "a linear layer on centered features",
		New: func() models.Config { return newConfig() },
		Presets: func() []models.Preset {
			c := newConfig()
			c.Inputs, c.Outputs = 6, 2
			return []models.Preset{{ID: "acme-small", Doc: "6 features, 2 outputs", Config: c, Length: 100,
				Init: initial}}
		}})
}

// initial makes the weights of `acme init`.
func initial(config models.Config, seed uint64) (models.Weights, error) {
	c := config.(*Config)
	w := tensor.New(tensor.Float32, c.Outputs, c.Inputs)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range tensor.Data[float32](w) {
		tensor.Data[float32](w)[i] = float32(r.NormFloat64() / math.Sqrt(float64(c.Inputs)))
	}
	return models.Weights{"weight": w}, nil
}
