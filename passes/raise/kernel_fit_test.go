package raise

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// s4dKernel returns the kernel of one channel of S4D-Lin.
func s4dKernel(n, length int, dt float64, r *rand.Rand, single bool) []float64 {
	k := make([]float64, length)
	for i := range n {
		lambda := complex(-0.5, math.Pi*float64(i))
		b := complex(r.NormFloat64(), r.NormFloat64()) * (cmplx.Exp(lambda*complex(dt, 0)) - 1) / lambda
		for j := range k {
			k[j] += 2 * real(b*cmplx.Exp(lambda*complex(dt*float64(j), 0)))
		}
	}
	for j := range k {
		if single {
			k[j] = float64(float32(k[j]))
		}
	}
	return k
}

// TestFit fits kernels in float64 and rounded to float32, with states from fast ones to ones that hardly change in the
// window.
func TestFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, single := range []bool{false, true} {
		for _, n := range []int{1, 4, 16} {
			for _, dt := range []float64{0.001, 0.01, 0.1} {
				for _, length := range []int{128, 1024} {
					k := s4dKernel(n, length, dt, r, single)
					e, ok := fitExponentials(k, &tally{ctx: t.Context(), left: fitWork})
					norm, peak := norms(k)
					t.Logf("single %v, n %d, dt %g, length %d: %v %d poles, %.3g", single, n, dt, length, ok,
						len(e.pole), residual(k, e)/norm)
					if !ok {
						// Many slow states in a short window cannot be told apart, and may be refused.
						if float64(n)*128 < float64(length)*dt*30 {
							t.Errorf("single %v, n %d, dt %g, length %d: not fitted", single, n, dt, length)
						}
						continue
					}
					if residual(k, e) > fitTol*norm || maxDiff(k, e.at(0, length)) > fitTol*peak {
						t.Errorf("single %v, n %d, dt %g, length %d: %d poles, off by %.3g", single, n, dt, length,
							len(e.pole), residual(k, e)/norm)
					}
					for _, p := range e.pole {
						if cmplx.Abs(p) > 1+1e-15 || imag(p) < 0 {
							t.Errorf("pole %v", p)
						}
					}
				}
			}
		}
	}
}
