package s4

import (
	"math"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
	"github.com/essmc/essmc/ops/essm/spectral"
)

// Init fills a tensor of the layer with initial values (Gu et al., 2022, section 4).
func (l *Layer) Init(x []float64, s models.Spec, name string, r *backbone.Random) bool {
	n := l.states()
	if l.isLowRank() {
		if done := l.initLowRank(x, s, name); done {
			return true
		}
	}
	frequencies, b := l.spectrum(r)
	switch name {
	case "layer.D":
		r.Fill(x, 1)
	case "layer.kernel.C":
		scale := math.Sqrt(0.5)
		if l.IsReal {
			scale = 1
		}
		r.Fill(x, scale)
	case "layer.kernel.B":
		for i := range x {
			switch {
			case l.IsReal:
				x[i] = 1
			case i%2 == 0:
				x[i] = real(b[i/2%n])
			default:
				x[i] = imag(b[i/2%n])
			}
		}
	case "layer.kernel.inv_dt":
		lo, hi := math.Log(l.DtMin), math.Log(l.DtMax)
		for i := range x {
			x[i] = inverse(l.DtTransform, math.Exp(lo+float64(r.Float64()*(hi-lo))))
			if l.DtFast {
				x[i] = math.Asinh(x[i])
			}
		}
	case "layer.kernel.A_real":
		for i := range x {
			v := 0.5
			if l.InitMethod == "diag-real" {
				v = float64(i%n + 1)
			}
			x[i] = inverse(l.RealTransform, v)
		}
	case "layer.kernel.A_imag":
		for i := range x {
			x[i] = inverse(l.ImagTransform, frequencies[i%n])
		}
	default:
		return false
	}
	return true
}

// spectrum returns the initial imaginary part of each state, below 0, and its factor B.
func (l *Layer) spectrum(r *backbone.Random) (frequencies []float64, b []complex128) {
	count, full := l.states(), float64(l.DState)
	frequencies, b = make([]float64, count), make([]complex128, count)
	for k := range count {
		n := float64(k)
		b[k] = 1
		switch l.InitMethod {
		case "diag-inv":
			frequencies[k] = full / math.Pi * (full/(2*n+1) - 1)
		case "diag-inv2":
			frequencies[k] = full / math.Pi * (full/(n+1) - 1)
		case "diag-quad":
			frequencies[k] = (1 + 2*n) * (1 + 2*n) / math.Pi
		case "diag-real":
		case "diag-rand":
			frequencies[k] = math.Exp(r.NormFloat64())
		default:
			frequencies[k] = math.Pi * n
		}
	}
	if l.InitMethod == "diag-legs" && !l.IsReal {
		lambda, v, err := spectral.HiPPO(l.DState)
		if err != nil {
			return frequencies, b // Check refuses such sizes
		}
		for k := range count {
			frequencies[k], b[k] = -imag(lambda[k]), 0
			for i, z := range v[k] { // V* B, with B = √(2i+1)
				w := math.Sqrt(float64(2*i + 1))
				b[k] += complex(float64(real(z)*w), -float64(imag(z)*w))
			}
			b[k] = complex(real(b[k]), math.Max(-2, math.Min(2, imag(b[k]))))
		}
	}
	return frequencies, b
}

// inverse is the argument at which a transform has the value v, of at least 1e-4 where 0 has none.
func inverse(kind string, v float64) float64 {
	least := math.Max(v, 1e-4)
	switch kind {
	case "exp":
		return math.Log(least)
	case "relu":
		return math.Max(v-1e-4, 0)
	case "sigmoid":
		return -math.Log(1/least - 1)
	case "softplus":
		return least + math.Log(-math.Expm1(-least))
	}
	return v
}
