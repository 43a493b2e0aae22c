package s4

import (
	"math"
	"slices"

	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops/essm/spectral"
)

// spectrum is the initial system of a feature, in the basis of the eigenvectors of its normal part: one of each
// conjugate pair, from the most negative imaginary part on.
type spectrum struct {
	lambda, b []complex128
	p         [][]complex128 // by rank; ranks beyond are 0
}

// initLowRank fills the tensors of the matrix and of the input of diagonal plus low-rank systems, as HiPPO methods have
// them (Gu, Goel, Ré, Efficiently Modeling Long Sequences with Structured State Spaces, 2022). It reports false for
// other tensors, and for initial values that are those of diagonal systems, with a low-rank part of 0.
func (l *Layer) initLowRank(x []float64, s models.Spec, name string) bool {
	if !slices.Contains(rankInits, l.InitMethod) {
		return name == "layer.kernel.P"
	}
	n, systems := l.states(), 0
	var of func(v spectrum, i int) float64 // the value at element i of a system
	switch name {
	case "layer.kernel.A_real":
		systems, of = s.Shape[0], func(v spectrum, i int) float64 {
			return inverse(l.RealTransform, -real(v.lambda[i]))
		}
	case "layer.kernel.A_imag":
		systems, of = s.Shape[0], func(v spectrum, i int) float64 {
			return inverse(l.ImagTransform, -imag(v.lambda[i]))
		}
	case "layer.kernel.B":
		systems, of = s.Shape[1], func(v spectrum, i int) float64 { return part(v.b[i/2], i) }
	case "layer.kernel.P":
		systems = s.Shape[1]
	default:
		return false
	}
	all := make([]spectrum, systems) // of two kinds at most
	for i := range all {
		switch {
		case i > 0 && (i != systems/2 || l.InitMethod != "hippo"):
			all[i] = all[i-1]
		case l.InitMethod == "hippo" && i == 0:
			all[i] = hippoSpectrum("legs", l.DState)
		case l.InitMethod == "hippo":
			all[i] = hippoSpectrum("fout", l.DState)
		default:
			all[i] = hippoSpectrum(l.InitMethod, l.DState)
		}
	}
	if of == nil { // P, by rank
		for i := range x {
			rank, system, at := i/(systems*2*n), i/(2*n)%systems, i%(2*n)
			if p := all[system].p; rank < len(p) {
				x[i] = part(p[rank][at/2], at)
			}
		}
		return true
	}
	size := len(x) / systems
	for i := range x {
		x[i] = of(all[i/size], i%size)
	}
	return true
}

// part returns the real part of z for even i, and the imaginary part for odd i.
func part(z complex128, i int) float64 {
	if i%2 == 0 {
		return real(z)
	}
	return imag(z)
}

// hippoSpectrum returns the system of a method with so many real states, an even number.
func hippoSpectrum(method string, size int) spectrum {
	b, p := make([]float64, size), [][]float64{make([]float64, size)}
	var lambda []complex128
	var v [][]complex128
	switch method {
	case "legs":
		for i := range b {
			b[i], p[0][i] = math.Sqrt(float64(2*i+1)), math.Sqrt(float64(i)+0.5)
		}
		var err error
		if lambda, v, err = spectral.HiPPO(size); err != nil {
			return spectrum{} // Check refuses such sizes
		}
	case "legt": // the normal part is skew-symmetric: ±½√(2i+1)√(2k+1) where i and k are not both even or odd
		p = append(p, make([]float64, size))
		skew := make([]float64, size*size)
		for i := range b {
			q := math.Sqrt(float64(2*i + 1))
			b[i], p[(i+1)%2][i] = q/2, q/math.Sqrt2
			for k := range i {
				if (i-k)%2 == 1 {
					w := q * math.Sqrt(float64(2*k+1)) / 2
					skew[i*size+k], skew[k*size+i] = -w, w
				}
			}
		}
		var err error
		if lambda, v, err = spectral.Skew(skew, size); err != nil {
			return spectrum{}
		}
	default: // Fourier: pairs of cosine and sine, which turn by πk
		for k := size/2 - 1; k >= 0; k-- {
			z := make([]complex128, size)
			z[2*k], z[2*k+1] = complex(math.Sqrt2/2, 0), complex(0, math.Sqrt2/2)
			lambda, v = append(lambda, complex(0, -math.Pi*float64(k))), append(v, z)
			b[2*k] = math.Sqrt2
		}
		b[0] = 1
		p = [][]float64{b}
	}
	s := spectrum{lambda: lambda[:size/2]}
	project := func(z []complex128, x []float64) (sum complex128) { // z* x
		for i, w := range x {
			sum += complex(float64(real(z[i])*w), -float64(imag(z[i])*w))
		}
		return sum
	}
	for _, z := range v[:size/2] {
		c := project(z, b)
		s.b = append(s.b, complex(real(c), math.Max(-2, math.Min(2, imag(c)))))
	}
	for _, row := range p {
		var q []complex128
		for _, z := range v[:size/2] {
			q = append(q, project(z, row))
		}
		s.p = append(s.p, q)
	}
	return s
}
