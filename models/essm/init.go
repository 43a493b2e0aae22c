package essm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/ops/essm/spectral"
)

// Values of InitOptions.C and InitOptions.D.
const (
	CFromNormal = "normal" // truncated normal
	CFromHiPPO  = "hippo"  // truncated normal, transformed to the coordinates of the HiPPO eigenvectors
	DOnes       = "ones"   // 1 for each feature; with a full D the identity of each head
	DNormal     = "normal" // normal
)

// InitOptions are settings for initialization (docs/math.md, Initialization). Zero values stand for the defaults.
type InitOptions struct {
	DtMin float64 // smallest step size; default 1e-3
	DtMax float64 // largest step size; default 1e-1
	Scale float64 // factor on every step size afterwards; default 1
	C     string  // CFromNormal (default) or CFromHiPPO
	D     string  // DOnes (default) or DNormal
}

func (o InitOptions) withDefaults() (InitOptions, error) {
	def := func(x *float64, v float64) {
		if *x == 0 {
			*x = v
		}
	}
	def(&o.DtMin, 1e-3)
	def(&o.DtMax, 1e-1)
	def(&o.Scale, 1)
	if o.C == "" {
		o.C = CFromNormal
	}
	if o.D == "" {
		o.D = DOnes
	}
	positive := func(x float64) bool { return x > 0 && finite(x) }
	switch {
	case !positive(o.DtMin) || !positive(o.DtMax) || o.DtMin > o.DtMax:
		return o, fmt.Errorf("init: expected step sizes 0 < dt_min ≤ dt_max, found %v and %v", o.DtMin, o.DtMax)
	case !positive(o.Scale):
		return o, fmt.Errorf("init: expected a scale above 0, found %v", o.Scale)
	case o.C != CFromNormal && o.C != CFromHiPPO:
		return o, fmt.Errorf("init: C: expected %s or %s, found %s", CFromNormal, CFromHiPPO, config.Shorten(o.C))
	case o.D != DOnes && o.D != DNormal:
		return o, fmt.Errorf("init: D: expected %s or %s, found %s", DOnes, DNormal, config.Shorten(o.D))
	}
	return o, nil
}

// maxInit bounds the size of a model that Init makes, so that a mistake in a configuration does not use up the memory.
const maxInit = 1 << 30

// Init makes initial weights for training (docs/math.md, Initialization). A head has d_state/heads states. With
// conj_sym these are one of each pair of a HiPPO matrix of twice that size. Equal seeds give equal weights.
func Init(c *Config, o InitOptions, seed uint64) (models.Weights, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	specs, err := c.Specs(nil)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, s := range specs {
		if total += s.Size(); total > maxInit {
			return nil, fmt.Errorf("init: expected at most %d numbers in all tensors, found more at tensor %s", maxInit,
				s.Name)
		}
	}
	n := c.Layer.DState / c.Layer.Heads
	full := n
	if c.Layer.ConjSym {
		full = 2 * n
	}
	lambda, v, err := spectral.HiPPO(full)
	if err != nil {
		return nil, fmt.Errorf("layer.d_state: %w", err)
	}
	in := initializer{rand.New(rand.NewPCG(seed, 0x6573736d)), o, lambda[:n], v[:n], full}
	w, fanIn := models.Weights{}, 1
	for _, s := range specs {
		x := make([]float64, s.Size())
		if len(s.Shape) == 2 && strings.HasSuffix(s.Name, ".weight") {
			fanIn = s.Shape[1] // also for the bias that follows
		}
		if err := in.fill(x, s, c, fanIn); err != nil {
			return nil, err
		}
		y := make([]float32, len(x))
		for i, v := range x {
			y[i] = float32(v)
		}
		w[s.Name] = tensor.FromSlice(y, s.Shape...)
	}
	return w, nil
}

// initializer draws numbers in the order of the specs. Products are rounded before they are added, by conversions that
// forbid the compiler to fuse them, so that all machines give the same bits.
type initializer struct {
	rng    *rand.Rand
	o      InitOptions
	lambda []complex128   // one for each state of a head
	v      [][]complex128 // and its eigenvector
	full   int            // their length
}

func (in *initializer) fill(x []float64, s models.Spec, c *Config, fanIn int) error {
	name := s.Name[strings.LastIndex(s.Name, ".")+1:]
	switch {
	case strings.Contains(s.Name, ".norm.norm."):
		if name == "weight" || name == "s" || name == "running_var" {
			set(x, 1)
		}
	case name == "log_dt":
		lo, hi := math.Log(in.o.DtMin), math.Log(in.o.DtMax)
		for i := range x {
			x[i] = lo + float64(in.rng.Float64()*(hi-lo)) + math.Log(in.o.Scale)
		}
	case name == "Lambda":
		for i := range x {
			l := in.lambda[i/2%len(in.lambda)]
			if x[i] = -math.Abs(real(l)); i%2 == 1 {
				x[i] = -math.Abs(imag(l))
			}
		}
	case name == "B":
		in.inputs(x, s.Shape[3])
	case name == "C":
		if in.o.C == CFromHiPPO {
			in.outputs(x)
			return nil
		}
		for i := range x {
			x[i] = in.truncated()
		}
	case name == "D":
		for i := range x {
			if in.o.D == DNormal {
				x[i] = in.rng.NormFloat64()
			} else if h := s.Shape[2]; len(s.Shape) == 3 || i/h%h == i%h {
				x[i] = 1
			}
		}
	case s.Name == "encoder.weight" && c.Encoder.Type == "embedding":
		for i := range x {
			x[i] = in.rng.NormFloat64()
		}
	case name == "weight" || name == "bias":
		bound := 1 / math.Sqrt(float64(fanIn))
		for i := range x {
			x[i] = float64(2*in.rng.Float64()-1) * bound
		}
	default:
		return fmt.Errorf("init: tensor %s has no rule", s.Name)
	}
	return nil
}

func set(x []float64, v float64) {
	for i := range x {
		x[i] = v
	}
}

// truncated draws from the normal distribution, cut off at ±2.
func (in *initializer) truncated() float64 {
	for {
		if x := in.rng.NormFloat64(); math.Abs(x) <= 2 {
			return x
		}
	}
}

// inputs fills B with the real part of V* W, W complex and truncated normal, head by head.
func (in *initializer) inputs(x []float64, h int) {
	n := len(in.v)
	re, im := make([]float64, in.full*h), make([]float64, in.full*h)
	for ; len(x) > 0; x = x[n*h:] {
		for i := range re {
			re[i], im[i] = in.truncated(), in.truncated()
		}
		for i, v := range in.v {
			for j := range h {
				sum := 0.0
				for r, z := range v {
					sum += float64(real(z)*re[r*h+j]) + float64(imag(z)*im[r*h+j])
				}
				x[i*h+j] = sum
			}
		}
	}
}

// outputs fills C with the real part of W V, W truncated normal, row by row.
func (in *initializer) outputs(x []float64) {
	row := make([]float64, in.full)
	for ; len(x) > 0; x = x[len(in.v):] {
		for i := range row {
			row[i] = in.truncated()
		}
		for i, v := range in.v {
			sum := 0.0
			for r, z := range v {
				sum += float64(row[r] * real(z))
			}
			x[i] = sum
		}
	}
}
