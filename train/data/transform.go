package data

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/internal/philox"
	"github.com/essmc/essmc/ir/tensor"
)

// Random is a stream of random numbers.
type Random = philox.Source

// Transform changes samples. Its methods may be called concurrently.
type Transform interface {
	// Check returns the specification of the changed samples, or an error if such samples cannot be changed.
	Check(Spec) (Spec, error)
	// Apply returns a changed sample, and writes to no tensor of the given one. Its random numbers follow from the
	// loader's seed, the transform's place among the others, the number of the sample and the epoch.
	Apply(Sample, *Random) (Sample, error)
}

// images returns an error unless the samples are pictures.
func images(name string, s Spec) error {
	if s.Height*s.Width == 0 || s.Token() {
		return fmt.Errorf("%s: expected pictures, found sequences of other kinds", name)
	}
	return nil
}

// pixels calls f for each input of a picture, with the numbers before and after; f writes all of the latter.
func pixels(x Sample, f func(dst, src []float32)) Sample {
	out := Sample{Inputs: slices.Clone(x.Inputs), Target: x.Target}
	for k, in := range x.Inputs {
		out.Inputs[k] = tensor.New(tensor.Float32, in.Shape()...)
		f(tensor.Data[float32](out.Inputs[k]), tensor.Data[float32](in))
	}
	return out
}

// Flip mirrors pictures from left to right, half of them.
type Flip struct{ height, width, features int }

// NewFlip returns a transform of pictures of the given size.
func NewFlip(s Spec) (*Flip, error) {
	return &Flip{s.Height, s.Width, s.Features}, images("flip", s)
}

// Check implements Transform.
func (f *Flip) Check(s Spec) (Spec, error) {
	return s, sameImages("flip", s, f.height, f.width, f.features)
}

func sameImages(name string, s Spec, height, width, features int) error {
	if s.Height != height || s.Width != width || s.Features != features {
		return fmt.Errorf("%s: expected pictures of %d × %d × %d, found %d × %d × %d",
			name, height, width, features, s.Height,
			s.Width, s.Features)
	}
	return images(name, s)
}

// Apply implements Transform.
func (f *Flip) Apply(x Sample, r *Random) (Sample, error) {
	if r.Uint32()&1 == 0 {
		return x, nil
	}
	return pixels(x, func(dst, src []float32) {
		for y := range f.height {
			for c := range f.width {
				from := (y*f.width + f.width - 1 - c) * f.features
				copy(dst[(y*f.width+c)*f.features:][:f.features], src[from:])
			}
		}
	}), nil
}

// Crop adds a border of zeros to pictures, and cuts a part of their own size out of them at a random place.
type Crop struct{ height, width, features, border int }

// NewCrop returns a transform of pictures of the given size, with a border of some pixels at each side.
func NewCrop(s Spec, border int) (*Crop, error) {
	if border < 0 || border > 1<<15 {
		return nil, fmt.Errorf("crop: border: expected 0 to %d pixels, found %d", 1<<15, border)
	}
	return &Crop{s.Height, s.Width, s.Features, border}, images("crop", s)
}

// Check implements Transform.
func (c *Crop) Check(s Spec) (Spec, error) {
	return s, sameImages("crop", s, c.height, c.width, c.features)
}

// Apply implements Transform.
func (c *Crop) Apply(x Sample, r *Random) (Sample, error) {
	dy, dx := r.IntN(2*c.border+1)-c.border, r.IntN(2*c.border+1)-c.border
	return pixels(x, func(dst, src []float32) {
		from, to := max(0, -dx), min(c.width, c.width-dx)
		for y := range c.height {
			if sy := y + dy; sy >= 0 && sy < c.height && from < to {
				copy(dst[(y*c.width+from)*c.features:(y*c.width+to)*c.features], src[(sy*c.width+from+dx)*c.features:])
			}
		}
	}), nil
}

// Normalize replaces each number x of feature f by (x - Mean[f]) / Std[f].
type Normalize struct{ Mean, Std []float32 }

// Check implements Transform.
func (n *Normalize) Check(s Spec) (Spec, error) {
	if s.Token() || len(n.Mean) != s.Features || len(n.Std) != s.Features {
		return s, fmt.Errorf("normalize: expected the mean and standard deviation of %d features, found %d and %d",
			s.Features,
			len(n.Mean), len(n.Std))
	}
	for f, d := range n.Std {
		if !(d > 0) || math.IsInf(float64(d), 0) || math.IsNaN(float64(n.Mean[f])) {
			return s, fmt.Errorf("normalize: feature %d: expected a positive standard deviation, found mean %v and deviation %v",
				f,
				n.Mean[f], d)
		}
	}
	return s, nil
}

// Apply implements Transform.
func (n *Normalize) Apply(x Sample, _ *Random) (Sample, error) {
	return pixels(x, func(dst, src []float32) {
		for i, v := range src {
			f := i % len(n.Mean)
			dst[i] = (v - n.Mean[f]) / n.Std[f]
		}
	}), nil
}

// Statistics returns a transform that gives the features of a set mean 0 and variance 1, over all steps of at most
// limit samples from the first on (0: all). Features that are constant are only shifted.
func Statistics(ctx context.Context, set Dataset, limit int) (*Normalize, error) {
	s := set.Spec()
	if s.Token() {
		return nil, fmt.Errorf("statistics: expected features, found tokens")
	}
	n := set.Len()
	if limit > 0 {
		n = min(n, limit)
	}
	mean, square, count := make([]float64, s.Features), make([]float64, s.Features), 0.0
	for i := range n {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		x, err := set.Sample(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", i, err)
		}
		if err := s.Check(fmt.Sprintf("sample %d", i), x); err != nil {
			return nil, err
		}
		for _, in := range x.Inputs {
			for row := range slices.Chunk(tensor.Data[float32](in), s.Features) {
				count++
				for f, v := range row { // Welford's sums
					d := float64(v) - mean[f]
					mean[f] += d / count
					square[f] += float64(d * (float64(v) - mean[f]))
				}
			}
		}
	}
	out := &Normalize{make([]float32, s.Features), make([]float32, s.Features)}
	for f := range mean {
		out.Mean[f], out.Std[f] = float32(mean[f]), float32(math.Sqrt(square[f]/count))
		if !(out.Std[f] > 0) {
			out.Std[f] = 1
		}
	}
	return out, nil
}

// Permute puts the steps of all samples into one fixed random order, as in psMNIST. Samples have Steps steps.
type Permute struct{ order []int }

// NewPermute returns the order of the given number of steps that follows from a seed.
func NewPermute(steps int, seed uint64) *Permute { return &Permute{Permutation(steps, seed)} }

// Check implements Transform.
func (p *Permute) Check(s Spec) (Spec, error) {
	if s.Steps != len(p.order) || s.Labels > 0 {
		return s, fmt.Errorf("permute: expected samples of %d steps without labels of steps, found at most %d steps and %d labels",
			len(p.order), s.Steps, s.Labels)
	}
	s.Height, s.Width = 0, 0
	return s, nil
}

// Apply implements Transform.
func (p *Permute) Apply(x Sample, _ *Random) (Sample, error) { return pick(x, p.order, true) }

// Every keeps each K-th step, from the first on: what a lower sampling rate records, without a filter.
type Every struct{ K int }

// Check implements Transform.
func (e Every) Check(s Spec) (Spec, error) {
	if e.K < 1 || s.Labels > 0 {
		return s, fmt.Errorf("every: expected 1 or more steps, and samples without labels of steps, found %d and %d labels",
			e.K,
			s.Labels)
	}
	if s.Steps > 0 {
		s.Steps = (s.Steps + e.K - 1) / e.K
	}
	if e.K > 1 {
		s.Height, s.Width = 0, 0
	}
	return s, nil
}

// Apply implements Transform.
func (e Every) Apply(x Sample, _ *Random) (Sample, error) {
	steps := make([]int, 0, x.Steps()/e.K+1)
	for t := 0; t < x.Steps(); t += e.K {
		steps = append(steps, t)
	}
	return pick(x, steps, false)
}

// pick returns the given steps of each input, as far as it has them. If whole is set, it must have all.
func pick(x Sample, steps []int, whole bool) (Sample, error) {
	out := Sample{Inputs: slices.Clone(x.Inputs), Target: x.Target}
	for k, in := range x.Inputs {
		n := in.Dim(0)
		if whole && n != len(steps) {
			return out, fmt.Errorf("expected %d steps, found %d", len(steps), n)
		}
		own := slices.DeleteFunc(slices.Clone(steps), func(t int) bool { return t >= n })
		shape := slices.Clone(in.Shape())
		shape[0] = len(own)
		out.Inputs[k] = tensor.New(in.DType(), shape...)
		width := len(in.Bytes()) / max(n, 1)
		for i, t := range own {
			copy(out.Inputs[k].Bytes()[i*width:][:width], in.Bytes()[t*width:])
		}
	}
	return out, nil
}
