package spectral

import (
	"fmt"
	"math"
	"slices"
)

// maxHiPPO bounds the size of a HiPPO matrix; its eigenvectors take time with the third power.
const maxHiPPO = 2048

// HiPPO gives the spectrum of the normal part of the HiPPO-LegS matrix of size n (SPEC §6): A + PPᵀ with
// A_nk = -√(2n+1)√(2k+1) for n > k, -(n+1) for n = k, P_n = √(n+½). The real parts are exactly -½. The values come by
// ascending imaginary part; value n-1-i and its eigenvector are exactly the conjugates of value i and its own, so the first
// n/2 are one of each pair. v[i] is the eigenvector of lambda[i], of norm 1, its first element that is not small real and
// positive.
func HiPPO(n int) (lambda []complex128, v [][]complex128, err error) {
	if n < 1 || n > maxHiPPO {
		return nil, nil, fmt.Errorf("HiPPO matrix: expected a size from 1 to %d, found %d", maxHiPPO, n)
	}
	// A + PPᵀ = -½ I + K with K skew-symmetric: below the diagonal -√(2i+1)√(2j+1) + ½√(2i+1)√(2j+1). The matrix -iK is
	// Hermitian, and its eigenvalues are the imaginary parts.
	h := make([]complex128, n*n)
	for i := range n {
		for j := range i {
			k := -0.5 * math.Sqrt(float64(2*i+1)) * math.Sqrt(float64(2*j+1))
			h[i*n+j], h[j*n+i] = complex(0, -k), complex(0, k)
		}
	}
	omega, u := hermitian(h, n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case omega[a] < omega[b]:
			return -1
		case omega[a] > omega[b]:
			return 1
		}
		return 0
	})
	lambda, v = make([]complex128, n), make([][]complex128, n)
	for i := range (n + 1) / 2 {
		x := make([]complex128, n)
		for r := range x {
			x[r] = u[r*n+order[i]]
		}
		normalise(x)
		w := omega[order[i]]
		j := n - 1 - i
		if i == j { // the vector of 0 is real
			w = 0
			for r := range x {
				x[r] = complex(real(x[r]), 0)
			}
			normalise(x)
		}
		y := make([]complex128, n)
		for r := range x {
			y[r] = complex(real(x[r]), -imag(x[r]))
		}
		lambda[j], v[j] = complex(-0.5, -w), y
		lambda[i], v[i] = complex(-0.5, w), x
	}
	return lambda, v, nil
}

// normalise makes the norm of x 1, and its first element of at least half the largest magnitude real and positive.
func normalise(x []complex128) {
	norm, largest := 0.0, 0.0
	for _, z := range x {
		norm += square(z)
		largest = max(largest, square(z))
	}
	for _, z := range x {
		if s := square(z); s >= largest/4 {
			r := float64(math.Sqrt(s) * math.Sqrt(norm))
			turn := complex(real(z)/r, -imag(z)/r)
			for i := range x {
				x[i] = times(x[i], turn)
			}
			return
		}
	}
}

// Products below are rounded one by one (a conversion forbids the compiler to fuse them with the sum), so that all machines
// give the same bits.

func square(z complex128) float64 {
	return float64(real(z)*real(z)) + float64(imag(z)*imag(z))
}

func times(a, b complex128) complex128 {
	return complex(float64(real(a)*real(b))-float64(imag(a)*imag(b)), float64(real(a)*imag(b))+float64(imag(a)*real(b)))
}

func scaled(a complex128, s float64) complex128 {
	return complex(float64(real(a)*s), float64(imag(a)*s))
}

// hermitian gives the eigenvalues of a Hermitian matrix and its eigenvectors, the columns of u, by Jacobi's method: rotations
// that make one element after the other zero, until all are. h is overwritten.
func hermitian(h []complex128, n int) (values []float64, u []complex128) {
	u = make([]complex128, n*n)
	total := 0.0
	for i := range n {
		u[i*n+i] = 1
		for j := range n {
			total += square(h[i*n+j])
		}
	}
	for range 60 { // about ten sweeps are needed; convergence is quadratic
		off := 0.0
		for p := range n {
			for q := p + 1; q < n; q++ {
				off += square(h[p*n+q])
				rotate(h, u, n, p, q)
			}
		}
		if off <= 1e-33*total {
			break
		}
	}
	values = make([]float64, n)
	for i := range values {
		values[i] = real(h[i*n+i])
	}
	return values, u
}

// rotate makes h[p,q] zero by a unitary rotation of the plane (p, q), which it adds to u.
func rotate(h, u []complex128, n, p, q int) {
	z := h[p*n+q]
	r := math.Sqrt(square(z))
	if r == 0 {
		return
	}
	phase := complex(real(z)/r, imag(z)/r)
	tau := (real(h[q*n+q]) - real(h[p*n+p])) / (2 * r)
	t := 1 / (math.Abs(tau) + math.Sqrt(1+float64(tau*tau)))
	if tau < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(1+float64(t*t))
	s := scaled(phase, t*c) // column p ← c·p - s̄·q, column q ← s·p + c·q
	conj := complex(real(s), -imag(s))
	columns := func(m []complex128) {
		for i := range n {
			a, b := m[i*n+p], m[i*n+q]
			m[i*n+p] = scaled(a, c) - times(conj, b)
			m[i*n+q] = times(s, a) + scaled(b, c)
		}
	}
	columns(h)
	columns(u)
	for j := range n {
		a, b := h[p*n+j], h[q*n+j]
		h[p*n+j] = scaled(a, c) - times(s, b)
		h[q*n+j] = times(conj, a) + scaled(b, c)
	}
	h[p*n+q], h[q*n+p] = 0, 0
	h[p*n+p], h[q*n+q] = complex(real(h[p*n+p]), 0), complex(real(h[q*n+q]), 0)
}
