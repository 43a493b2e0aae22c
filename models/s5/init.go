package s5

import (
	"math"
	"strings"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/models/flax"
	"github.com/essmc/essmc/ops/essm/spectral"
)

func init() {
	models.Register(models.Family{Type: Type, Doc: "S5: one diagonal system of all features in each layer",
		New:     func() models.Config { return newConfig() },
		Presets: presets,
		Flax:    &models.Checkpoint{Code: "S5", Tensor: flax.FirstLayer + "Lambda_re", Complete: complete}})
}

// presets has a small model for the task of the preset smnist, and the paper's for Speech Commands.
func presets() []models.Preset {
	preset := func(id, doc string, length int, change func(c *Config)) models.Preset {
		c := newConfig()
		change(c)
		return models.Preset{ID: id, Doc: doc, Config: c, Length: length,
			Init: func(c models.Config, seed uint64) (models.Weights, error) { return Init(c.(*Config), seed) }}
	}
	return []models.Preset{
		preset("s5-smnist", "MNIST digits, pixel by pixel, with S5", 784, func(c *Config) {
			c.DInput, c.DOutput, c.NLayers, c.DModel, c.SSMSize, c.Blocks = 1, 10, 4, 96, 128, 1
			c.Mode, c.Activation = "pool", "half_glu1"
		}),
		preset("s5-sc35", "Speech Commands, 35 words, from raw audio at 16 kHz, with S5", 16000, func(c *Config) {
			c.DInput, c.DOutput, c.NLayers, c.DModel, c.SSMSize, c.Blocks, c.SamplingRate = 1, 35, 6, 96, 128, 16, 16000
			c.CInit, c.Activation, c.ClipEigs, c.Bidirectional = "lecun_normal", "half_glu2", true, true
		}),
	}
}

// Init makes initial weights for training: blocks of the normal part of the HiPPO-LegS matrix. Equal seeds give equal
// weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	size := c.SSMSize / c.Blocks
	lambda, v, err := spectral.HiPPO(size)
	if err != nil {
		return nil, err
	}
	if c.ConjSym { // those with a negative imaginary part
		lambda, v = lambda[:size/2], v[:size/2]
	}
	frame := c.frame()
	return backbone.Draw(specs, seed, func(x []float64, s models.Spec, r *backbone.Random) {
		name := s.Name[strings.LastIndex(s.Name, ".")+1:]
		k := len(lambda)
		switch {
		case !strings.Contains(s.Name, ".seq."):
			frame.Fill(x, s, name, r)
		case name == "Lambda_re":
			for i := range x {
				x[i] = real(lambda[i%k])
			}
		case name == "Lambda_im":
			for i := range x {
				x[i] = imag(lambda[i%k])
			}
		case name == "D":
			r.Fill(x, 1)
		case name == "log_step":
			lo, hi := math.Log(c.DtMin), math.Log(c.DtMax)
			for i := range x {
				x[i] = lo + float64(r.Float64()*(hi-lo))
			}
		case name == "B": // V* B, with B of variance 1/features
			h, row := s.Shape[1], make([]float64, size)
			scale := 1 / math.Sqrt(float64(h))
			for block := range c.Blocks {
				for j := range h {
					r.Fill(row, scale)
					for i, vec := range v {
						at := 2 * ((block*k+i)*h + j)
						for m, z := range vec {
							x[at] += float64(real(z) * row[m])
							x[at+1] -= float64(imag(z) * row[m])
						}
					}
				}
			}
		case c.CInit == "complex_normal":
			r.Fill(x, math.Sqrt(0.5))
		default: // C V, with C of variance 1/states
			h, p, row := s.Shape[0], s.Shape[1], make([]float64, size)
			scale := 1 / math.Sqrt(float64(c.SSMSize))
			for i := range h {
				for block := range p / k {
					r.Fill(row, scale)
					for j, vec := range v {
						at := 2 * (i*p + block*k + j)
						for m, z := range vec {
							x[at] += float64(real(z) * row[m])
							x[at+1] += float64(imag(z) * row[m])
						}
					}
				}
			}
		}
	})
}
