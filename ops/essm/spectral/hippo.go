package spectral

import (
	"fmt"
	"math"
)

// maxHiPPO bounds the size of a HiPPO matrix, since the memory for its eigenvectors grows with the square.
const maxHiPPO = 2048

// HiPPO returns the spectrum of the normal part of the HiPPO-LegS matrix of size n (docs/math.md, Initialization): A +
// PPᵀ with A_nk = -√(2n+1)√(2k+1) for n > k, -(n+1) for n = k, P_n = √(n+½). The real parts are exactly -½. The values
// are in the order of their imaginary parts. Value n-1-i and its eigenvector are exactly the conjugates of value i and
// its eigenvector, so the first n/2 are one of each pair. v[i] is the eigenvector of lambda[i]: of norm 1, with a real
// and positive first element.
//
// No matrix is formed. A + PPᵀ = -½ I + K, where K is skew-symmetric and, with a_i = i+½, K_ij = ∓√(a_i a_j) below and
// above the diagonal. Row i of K v = iω v, with w_i = √a_i v_i, is √a_i (Σ_{j>i} w_j - Σ_{j<i} w_j) = iω v_i. Let R_i
// be the sum of w_j for j ≥ i less the sum for j < i. Then w_i = R_i a_i/(a_i+iω) and R_{i+1} = R_i (iω-a_i)/(iω+a_i),
// which is the eigenvector. From R_n = -R_0 follow the eigenvalues: Σ atan(a_i/ω) = π(k+½), once for each k.
func HiPPO(n int) (lambda []complex128, v [][]complex128, err error) {
	if n < 1 || n > maxHiPPO {
		return nil, nil, fmt.Errorf("HiPPO matrix: expected a size from 1 to %d, found %d", maxHiPPO, n)
	}
	lambda, v = make([]complex128, n), make([][]complex128, n)
	for k := range n / 2 {
		w := -frequency(n, k)
		lambda[k], v[k] = complex(-0.5, w), eigenvector(n, w)
		conj := make([]complex128, n)
		for i, z := range v[k] {
			conj[i] = complex(real(z), -imag(z))
		}
		lambda[n-1-k], v[n-1-k] = complex(-0.5, -w), conj
	}
	if n%2 == 1 {
		lambda[n/2], v[n/2] = -0.5, eigenvector(n, 0)
	}
	return lambda, v, nil
}

// frequency solves Σ atan(a_i/ω) = π(k+½) for ω, the k-th largest imaginary part. As a function of 1/ω the sum is
// increasing and concave, so Newton's method climbs from 0 to the solution. It converges quadratically: after a
// relative step below 1e-9 only rounding is left.
func frequency(n, k int) float64 {
	s, target := 0.0, math.Pi*(float64(k)+0.5)
	for {
		sum, slope := 0.0, 0.0
		for i := range n {
			a := float64(i) + 0.5
			x := a * s
			sum += math.Atan(x)
			slope += a / (1 + float64(x*x))
		}
		next := s + (target-sum)/slope
		if !(next > s*(1+1e-9)) {
			return 1 / next
		}
		s = next
	}
}

func eigenvector(n int, w float64) []complex128 {
	v := make([]complex128, n)
	norm := 0.0
	r := complex(0.5, w)
	r /= complex(math.Hypot(0.5, w), 0)
	for i := range v {
		a := float64(i) + 0.5
		v[i] = complex(math.Sqrt(a), 0) * r / complex(a, w)
		r *= complex(-a, w) / complex(a, w)
		norm += a / (float64(a*a) + float64(w*w))
	}
	for i := range v {
		v[i] /= complex(math.Sqrt(norm), 0)
	}
	v[0] = complex(real(v[0]), 0)
	return v
}
