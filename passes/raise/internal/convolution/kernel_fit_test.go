package convolution

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/passes"
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
						t.Errorf("single %v, n %d, dt %g, length %d: not fitted", single, n, dt, length)
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

// TestFitShort fits three slow real states in few taps: a sum of two is off by a few roundings only.
func TestFitShort(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, length := range []int{24, 25, 40} {
		for range 16 {
			k := make([]float64, length)
			for range 3 {
				decay, amp := math.Exp(r.Float64()*2-3), r.NormFloat64()
				for j := range k {
					k[j] += amp * math.Exp(-decay*float64(j))
				}
			}
			for j := range k {
				k[j] = float64(float32(k[j]))
			}
			if e, ok := fitExponentials(k, &tally{ctx: t.Context(), left: fitWork}); !ok || len(e.pole) > 4 {
				t.Errorf("length %d: %d poles, off by %.2g", length, len(e.pole), e.off(k))
			}
		}
	}
}

// foldedKernel returns the kernel of a channel of S4D-Lin, or of DSS, computed in float32 and then stored. Its
// angles have larger errors than its taps.
func foldedKernel(n, length int, dt float64, dss bool, r *rand.Rand) []float64 {
	single := func(x float64) float64 { return float64(float32(x)) }
	k := make([]float64, length)
	for i := range n {
		re, im := single(-0.5*dt), single(single(math.Pi*float64(i))*dt)
		c := complex(r.NormFloat64(), r.NormFloat64())
		if !dss {
			lambda := complex(-0.5, math.Pi*float64(i))
			c *= (cmplx.Exp(lambda*complex(dt, 0)) - 1) / lambda
		}
		for j := range k {
			size, at := single(math.Exp(single(re*float64(j)))), single(im*float64(j))
			v := single(size*single(math.Cos(at)))*single(real(c)) - single(size*single(math.Sin(at)))*single(imag(c))
			k[j] = single(k[j] + single(2*v))
		}
	}
	return k
}

// TestFitFolded fits layers of 16 pairs as exporters fold them, from channels whose states hardly change in the window to
// those that are over soon. No amplitudes may cancel.
func TestFitFolded(t *testing.T) {
	const channels = 16
	for _, length := range []int{255, 256, 512} {
		for _, dss := range []bool{false, true} {
			r := rand.New(rand.NewPCG(3, uint64(length)))
			most, spent := 0, int64(0)
			for c := range channels {
				dt := math.Exp(math.Log(0.001) + (float64(c)+r.Float64())/channels*math.Log(100))
				k := foldedKernel(16, length, dt, dss, r)
				norm, peak := norms(k)
				work := tally{ctx: t.Context(), left: fitWork}
				e, ok := fitExponentials(k, &work)
				if !ok || !e.fits(k, norm, peak) {
					t.Errorf("length %d, dt %.4f, dss %v: %d poles, off by %.2g", length, dt, dss, len(e.pole), e.off(k))
				}
				for _, p := range e.pole {
					if cmplx.Abs(p) > 1+1e-15 || imag(p) < 0 {
						t.Errorf("pole %v", p)
					}
				}
				most, spent = max(most, len(e.pole)), spent+work.spent
			}
			t.Logf("length %d, dss %v: at most %d poles, %.2g operations", length, dss, most, float64(spent))
			if limit := channels * int64(1<<29); spent > limit {
				t.Errorf("length %d, dss %v: %d operations, expected at most %d", length, dss, spent, limit)
			}
		}
	}
}

// TestFitRefused gives kernels that no sum of few exponentials fits. The reason reports how near one comes, or how
// many it would take. Amplitudes that cancel are not a fit.
func TestFitRefused(t *testing.T) {
	for noise, reason := range map[float64]string{3e-6: "the nearest sum, of ", 1e-3: "it has at least 1"} {
		r := rand.New(rand.NewPCG(5, 6))
		k := foldedKernel(16, 256, 0.01, false, r)
		_, peak := norms(k)
		for j := range k {
			k[j] += noise * peak * r.NormFloat64()
		}
		_, _, why := fitAll(&passes.Context{}, [][]float64{k}, nil, false)
		if t.Log(why); !strings.HasPrefix(why, "the kernel of channel 0 ") || !strings.Contains(why, reason) {
			t.Errorf("noise of %g: the reason is %q, expected %q in it", noise, why, reason)
		}
	}
	e := exponentials{pole: []complex128{0.9, 0.9 + 1e-7}, amp: []complex128{1e5, 1 - 1e5}}
	k := e.at(0, 64)
	if norm, peak := norms(k); e.fits(k, norm, peak) {
		t.Error("amplitudes of 1e5 for a kernel of 1 are a fit")
	}
}

// TestShift moves kernels by a lag. A pole near 0 gives way if the kernel hardly needs it.
func TestShift(t *testing.T) {
	for amp, want := range map[complex128]bool{1e-5: true, 1: false} {
		e := exponentials{pole: []complex128{0.9, 0.5 + 0.5i, 1e-3}, amp: []complex128{1, 2i, amp}}
		k := e.at(0, 64)
		h := &half{taps: [][]float64{k}, exps: []exponentials{e}}
		if ok := h.shift(&passes.Context{}); ok != want {
			t.Errorf("amplitude %v: %v, expected %v", amp, ok, want)
		} else if ok && maxDiff(k, h.exps[0].at(1, 64)) > 3*fitTol {
			t.Errorf("amplitude %v: off by %.2g", amp, maxDiff(k, h.exps[0].at(1, 64)))
		}
	}
}
