package spectral

import (
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/mat"
)

// Eigen is a decomposition A = T Λ T⁻¹ of a real square matrix of size N. Conjugate pairs are neighbors, with the value
// of positive imaginary part first. The second of a pair is exactly the conjugate of the first, and so is its column of
// T.
type Eigen struct {
	N      int
	Values []complex128
	// T holds the eigenvectors in its columns, each of 2-norm 1.
	T []complex128
	// Inverse is T⁻¹; nil if T is singular to working precision.
	Inverse []complex128
	// Condition is the condition number of T in the 2-norm, infinite if T is singular. Rounding errors of the states
	// grow by at most this factor in the diagonal form.
	Condition float64
	// Residual is the largest element of A T - T Λ, relative to the largest of A.
	Residual float64
}

// Decompose returns the eigenvalues and eigenvectors of a. It is not an error if the matrix cannot be diagonalized:
// Condition is then infinite or very large.
func Decompose(a []float64, n int) (*Eigen, error) {
	if n < 1 || len(a) != n*n {
		return nil, fmt.Errorf("matrix: expected %d × %d elements of a size of at least 1, found %d", n, n, len(a))
	}
	scale := 0.0
	for i, x := range a {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("matrix[%d,%d]: expected a finite number, found %v", i/n, i%n, x)
		}
		scale = max(scale, math.Abs(x))
	}
	e := &Eigen{N: n, T: make([]complex128, n*n)}
	// A power of two scales exactly, and prevents overflow in the solver.
	shift := 0
	if scale > 0 {
		_, shift = math.Frexp(scale)
	}
	scaled := make([]float64, len(a))
	for i, x := range a {
		scaled[i] = math.Ldexp(x, -shift)
	}
	var f mat.Eigen
	if !f.Factorize(mat.NewDense(n, n, scaled), mat.EigenRight) {
		return nil, fmt.Errorf("eigenvalues of a matrix of size %d did not converge", n)
	}
	e.Values = f.Values(nil)
	var t mat.CDense
	f.VectorsTo(&t)
	for i := range n {
		for j := range n {
			e.T[i*n+j] = t.At(i, j)
		}
	}
	for i := range n {
		for j := range n {
			var s complex128
			for k := range n {
				s += complex(scaled[i*n+k], 0) * e.T[k*n+j]
			}
			e.Residual = max(e.Residual, cmplx.Abs(s-e.T[i*n+j]*e.Values[j]))
		}
	}
	for i, v := range e.Values {
		e.Values[i] = complex(math.Ldexp(real(v), shift), math.Ldexp(imag(v), shift))
	}
	var err error
	if e.Condition, err = condition(e.T, n); err != nil {
		return nil, err
	}
	e.Inverse = invert(e.T, n)
	if e.Inverse == nil {
		e.Condition = math.Inf(1)
	}
	return e, nil
}

// condition returns the ratio of the largest and the smallest singular value of t, found from its real form
// [[Re, -Im], [Im, Re]], which has each of them twice.
func condition(t []complex128, n int) (float64, error) {
	m := mat.NewDense(2*n, 2*n, nil)
	for i := range n {
		for j := range n {
			z := t[i*n+j]
			m.Set(i, j, real(z))
			m.Set(i, n+j, -imag(z))
			m.Set(n+i, j, imag(z))
			m.Set(n+i, n+j, real(z))
		}
	}
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDNone) {
		return 0, fmt.Errorf("singular values of a matrix of size %d did not converge", n)
	}
	s := svd.Values(nil)
	if s[len(s)-1] == 0 {
		return math.Inf(1), nil
	}
	return s[0] / s[len(s)-1], nil
}

// invert returns the inverse, by elimination with row pivoting, or nil if a pivot is 0.
func invert(t []complex128, n int) []complex128 {
	w := 2 * n
	m := make([]complex128, n*w)
	for i := range n {
		copy(m[i*w:], t[i*n:(i+1)*n])
		m[i*w+n+i] = 1
	}
	for c := range n {
		p := c
		for r := c + 1; r < n; r++ {
			if cmplx.Abs(m[r*w+c]) > cmplx.Abs(m[p*w+c]) {
				p = r
			}
		}
		if !(cmplx.Abs(m[p*w+c]) > 0) {
			return nil
		}
		for j := range w {
			m[p*w+j], m[c*w+j] = m[c*w+j], m[p*w+j]
		}
		inv := 1 / m[c*w+c]
		for j := c; j < w; j++ {
			m[c*w+j] *= inv
		}
		for r := range n {
			if f := m[r*w+c]; r != c && f != 0 {
				for j := c; j < w; j++ {
					m[r*w+j] -= f * m[c*w+j]
				}
			}
		}
	}
	out := make([]complex128, n*n)
	for i := range n {
		copy(out[i*n:(i+1)*n], m[i*w+n:])
	}
	return out
}
