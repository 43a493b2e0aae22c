package backbone

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// maxInit bounds the size of a model that Init makes, so that a mistake in a configuration does not use up the memory.
const maxInit = 1 << 30

// Random draws numbers. Callers round products before they add them, by conversions that forbid the compiler to fuse
// them, so that all machines give the same bits.
type Random struct{ *rand.Rand }

// Fill fills x with normal numbers.
func (r *Random) Fill(x []float64, scale float64) {
	for i := range x {
		x[i] = scale * r.NormFloat64()
	}
}

// Bounded fills x with uniform numbers from -bound to bound.
func (r *Random) Bounded(x []float64, bound float64) {
	for i := range x {
		x[i] = float64(2*r.Float64()-1) * bound
	}
}

// Uniform fills x, a matrix of the given size, with uniform numbers of the variance that keeps activations and
// gradients of equal size (Glorot, Bengio, 2010).
func (r *Random) Uniform(x []float64, outputs, inputs int) {
	bound := math.Sqrt(6 / float64(outputs+inputs))
	for i := range x {
		x[i] = float64(2*r.Float64()-1) * bound
	}
}

// Preset returns a preset from a configuration without model_type. It panics if that is wrong.
func Preset(id, doc string, length int, c *Config, text string) models.Preset {
	v, err := config.Parse([]byte(text))
	if err == nil {
		v.Members = append(v.Members, config.Member{Key: "model_type",
			Value: &config.Value{Kind: config.String, Text: c.ModelType}})
		err = c.Settings().Read(v)
	}
	if err != nil {
		panic("preset " + id + ": " + err.Error())
	}
	return models.Preset{ID: id, Doc: doc, Config: c, Length: length,
		Init: func(c models.Config, seed uint64) (models.Weights, error) { return Init(c.(*Config), seed) }}
}

// Init makes initial weights for training. Equal seeds give equal weights.
func Init(c *Config, seed uint64) (models.Weights, error) {
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	fanIn := 1
	return Draw(specs, seed, func(x []float64, s models.Spec, r *Random) {
		if len(s.Shape) == 2 && strings.HasSuffix(s.Name, ".weight") {
			fanIn = s.Shape[1] // also for the bias that follows
		}
		c.fill(x, s, r, fanIn)
	})
}

// Draw makes tensors, each filled by a function, in their order.
func Draw(specs []models.Spec, seed uint64, fill func(x []float64, s models.Spec, r *Random)) (models.Weights, error) {
	total := 0
	for _, s := range specs {
		if total += s.Size(); total > maxInit {
			return nil, fmt.Errorf("init: expected at most %d numbers in all tensors, found more at tensor %s", maxInit,
				s.Name)
		}
	}
	r := &Random{rand.New(rand.NewPCG(seed, 0x6261636b))}
	w := models.Weights{}
	for _, s := range specs {
		if s.Int {
			w[s.Name] = tensor.New(tensor.Int64, s.Shape...)
			continue
		}
		x := make([]float64, s.Size())
		fill(x, s, r)
		y := make([]float32, len(x))
		for i, v := range x {
			y[i] = float32(v)
		}
		w[s.Name] = tensor.FromSlice(y, s.Shape...)
	}
	return w, nil
}

func (c *Config) fill(x []float64, s models.Spec, r *Random, fanIn int) {
	name := s.Name[strings.LastIndex(s.Name, ".")+1:]
	for i := range c.blocks() {
		for _, prefix := range []string{c.prefix(i), secondPrefix(i)} {
			if rest, ok := strings.CutPrefix(s.Name, prefix); ok && c.layer(i).Init(x, s, rest, r) {
				return
			}
		}
	}
	switch {
	case strings.Contains(s.Name, ".norm.norm."):
		if name == "weight" || name == "s" || name == "running_var" {
			for i := range x {
				x[i] = 1
			}
		}
	case name == "pe":
		Sinusoids(x, s.Shape[1])
	case strings.HasPrefix(s.Name, "encoder.") && c.Encoder[0].Name() == "embedding":
		r.Fill(x, 1)
	default:
		bound := 1 / math.Sqrt(float64(fanIn))
		for i := range x {
			x[i] = float64(2*r.Float64()-1) * bound
		}
	}
}
