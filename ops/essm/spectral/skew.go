package spectral

import (
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/mat"
)

// Skew returns the eigenvalues iω of a real skew-symmetric matrix of size n, in the order of ω, and its eigenvectors:
// of norm 1, with a first element that is real and not negative. Vectors of eigenvalues that occur twice are of no use.
func Skew(a []float64, n int) (lambda []complex128, v [][]complex128, err error) {
	if n < 1 || n > maxHiPPO || len(a) != n*n {
		return nil, nil, fmt.Errorf("matrix: expected %d × %d elements of a size from 1 to %d, found %d", n, n,
			maxHiPPO, len(a))
	}
	// With A v = iωv and v = x + iy, (x, y) is an eigenvector of the symmetric matrix [[0, A], [-A, 0]]. The same
	// is true for each complex multiple of v, so each ω occurs twice.
	m := mat.NewSymDense(2*n, nil)
	for i := range n {
		for j := range n {
			m.SetSym(i, n+j, a[i*n+j])
		}
	}
	var f mat.EigenSym
	if !f.Factorize(m, true) {
		return nil, nil, fmt.Errorf("eigenvalues of a matrix of size %d did not converge", n)
	}
	values := f.Values(nil)
	var t mat.Dense
	f.VectorsTo(&t)
	for k := range n {
		z := make([]complex128, n)
		for i := range z {
			z[i] = complex(t.At(i, 2*k), t.At(n+i, 2*k))
		}
		if r := cmplx.Abs(z[0]); r > 1e-12 {
			turn := cmplx.Conj(z[0]) / complex(r, 0)
			for i := range z {
				z[i] *= turn
			}
			z[0] = complex(math.Max(0, real(z[0])), 0)
		}
		lambda, v = append(lambda, complex(0, values[2*k])), append(v, z)
	}
	return lambda, v, nil
}
