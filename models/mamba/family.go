package mamba

import (
	"math"
	"strings"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/config"
)

func init() {
	models.Register(models.Family{Type: Type, Doc: "Mamba: selective systems whose step sizes, inputs and outputs " +
		"vary with time",
		New: func() models.Config { return newConfig(Type) }, Presets: presets,
		Claims: func(v *config.Value) bool { return claims(v, Type) }})
	models.Register(models.Family{Type: Type2, Doc: "Mamba-2: selective systems with one rate for a head",
		New: func() models.Config { return newConfig(Type2) }, Presets: presets2,
		Claims: func(v *config.Value) bool { return claims(v, Type2) }})
}

func preset(id, doc string, c *Config) models.Preset {
	return models.Preset{ID: id, Doc: doc, Config: c, Length: 2048,
		Init: func(c models.Config, seed uint64) (models.Weights, error) { return Init(c.(*Config), seed) }}
}

// presets are the smaller published models.
func presets() []models.Preset {
	size := func(d, layers int) *Config {
		c := newConfig(Type)
		c.HiddenSize, c.Layers = d, layers
		return c
	}
	return []models.Preset{preset("mamba-130m", "Text: the next token, with Mamba of 130 million parameters",
		size(768, 24)),
		preset("mamba-370m", "Text: the next token, with Mamba of 370 million parameters", size(1024, 48)),
		preset("mamba-790m", "Text: the next token, with Mamba of 790 million parameters", size(1536, 48))}
}

func presets2() []models.Preset {
	c := newConfig(Type2)
	c.VocabSize, c.HiddenSize, c.Layers, c.NumHeads, c.HeadDim, c.Groups, c.Tied = 50288, 768, 24, 24, 64, 1, true
	return []models.Preset{preset("mamba2-130m", "Text: the next token, with Mamba-2 of 130 million parameters", c)}
}

// Init makes initial weights for training. Equal seeds give equal weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	fanIn := 1
	uniform := func(x []float64, bound float64, r *backbone.Random) {
		for i := range x {
			x[i] = float64(2*r.Float64()-1) * bound
		}
	}
	return backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		name := last(s.Name)
		if name == "weight" {
			fanIn = s.Size() / s.Shape[0] // also for the bias that follows
		}
		switch {
		case strings.Contains(s.Name, "norm"):
			for i := range x {
				x[i] = 1
				if name == "bias" {
					x[i] = 0
				}
			}
		case name == "D":
			for i := range x {
				x[i] = 1
			}
		case name == "A_log": // rates 1, 2, … of states, or of heads
			for i := range x {
				x[i] = math.Log(float64(1 + i%s.Shape[len(s.Shape)-1]))
			}
		case name == "dt_bias" || strings.HasSuffix(s.Name, "dt_proj.bias"): // the inverse of softplus
			lo, hi := math.Log(c.TimeStepMin), math.Log(c.TimeStepMax)
			for i := range x {
				dt := math.Max(math.Exp(lo+float64(r.Float64()*(hi-lo))), c.TimeStepFloor)
				x[i] = dt + math.Log(-math.Expm1(-dt))
			}
		case strings.HasSuffix(s.Name, "dt_proj.weight"):
			uniform(x, 1/math.Sqrt(float64(c.rank())), r)
		case s.Name == c.embedding(c.root(nil)):
			r.Fill(x, c.Range)
		case strings.HasSuffix(s.Name, "proj.bias"):
		default:
			bound := 1 / math.Sqrt(float64(fanIn))
			if c.Rescale && strings.HasSuffix(s.Name, "out_proj.weight") {
				bound /= math.Sqrt(float64(c.Layers))
			}
			uniform(x, bound, r)
		}
	})
}
