package spectral

import (
	"context"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// LowRank returns the real matrices (1, N, 2n, 2n) of diagonal plus low-rank systems diag(λ) - Σ_r p_r p_r*, on the
// real parts of the n states of a feature and then their imaginary parts. λ is (N, n) and p is (N, R, n), in two parts
// each. They have the eigenvalues and the condition of the systems with the conjugate states. Row j is multiplied by
// scale[j mod n] of its feature; nil: by 1. The elements are spent and taken from the budget; the caller releases the
// bytes. LowRank ends between two features when ctx is done.
func LowRank(ctx context.Context, budget *ir.Budget, re, im, pRe, pIm *tensor.Tensor, scale []float64) (*tensor.Tensor,
	error) {
	shape := pRe.Shape()
	if len(shape) != 3 {
		return nil, fmt.Errorf("p: expected (features, rank, states), found %s", pRe)
	}
	heads, rank, n := shape[0], shape[1], shape[2]
	var v [4][]float64
	for i, t := range []*tensor.Tensor{re, im, pRe, pIm} {
		var err error
		if v[i], err = t.Float64s(); err != nil {
			return nil, err
		}
	}
	if len(v[0]) != heads*n || len(v[1]) != heads*n || len(v[3]) != len(v[2]) || scale != nil && len(scale) != heads*n {
		return nil, fmt.Errorf("expected systems of the same sizes, found λ %s and %s, p %s and %s", re, im, pRe, pIm)
	}
	if 32*float64(heads)*float64(n)*float64(n)*float64(1+rank) > math.MaxInt {
		return nil, fmt.Errorf("%d × %d states are too many", heads, n)
	}
	size := 4 * n * n
	if err := budget.Spend(int64(heads * size * (1 + rank))); err != nil {
		return nil, err
	}
	if err := budget.Take(int64(8 * heads * size)); err != nil {
		return nil, err
	}
	out := make([]float64, heads*size)
	for h := range heads {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m, p, q := out[h*size:(h+1)*size], v[2][h*rank*n:], v[3][h*rank*n:]
		for j := range n {
			a, b := v[0][h*n+j], v[1][h*n+j]
			m[j*2*n+j], m[j*2*n+n+j], m[(n+j)*2*n+j], m[(n+j)*2*n+n+j] = a, -b, b, a
		}
		// p p* z = p·2 Re(p*z), since conjugate states double the real part
		for r := range rank {
			for i := range n {
				for j := range n {
					x, y := 2*p[r*n+j], 2*q[r*n+j]
					m[i*2*n+j] -= p[r*n+i] * x
					m[i*2*n+n+j] -= p[r*n+i] * y
					m[(n+i)*2*n+j] -= q[r*n+i] * x
					m[(n+i)*2*n+n+j] -= q[r*n+i] * y
				}
			}
		}
		for i := range m {
			if scale != nil {
				m[i] *= scale[h*n+i/(2*n)%n]
			}
		}
	}
	return tensor.FromSlice(out, 1, heads, 2*n, 2*n), nil
}
