package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

func (c *Siso) Sequence(form string, length int, history bool) record.SequenceKernel {
	k := &responses{from: c}
	k.setupBeside(&c.RecurrenceInfo, length, history, form == essm.FormFFT)
	return k
}

// responseSteps is the number of lags of a kernel that are computed by one product.
const responseSteps = 64

// kernels computes the kernels of feature i: Re Σ c āᵏ b over its states, for lag k. The direct term belongs to lag 0 of
// the forward half. Lags j + 64k are products of a matrix of the powers āʲ, which all k share, and the vector c ā⁶⁴ᵏ b.
func (c *Siso) kernels(i int, taps [2][]float32, w *record.Workspace) {
	n := c.States
	a := c.a[i*n : (i+1)*n]
	powers, at, sum := make([]float64, responseSteps*2*n), make([]float64, 2*n), make([]float64, responseSteps)
	z, step := make([]complex128, n), make([]complex128, n)
	for j := range responseSteps {
		for s, v := range a {
			p := essm.Pow(v, float64(j))
			powers[j*2*n+s], powers[j*2*n+n+s] = real(p), -imag(p)
		}
	}
	for s, v := range a {
		step[s] = essm.Pow(v, responseSteps)
	}
	all := taps[0]
	if taps[1] != nil {
		all = taps[1]
	}
	for lo := 0; lo < len(all) && !w.Stopped(); lo += responseSteps {
		for s, v := range a {
			if lo%(64*responseSteps) == 0 { // no error grows over long kernels
				z[s] = c.gain[i*n+s] * essm.Pow(v, float64(lo))
			}
			at[s], at[n+s] = real(z[s]), imag(z[s])
			z[s] *= step[s]
		}
		part := all[lo:min(lo+responseSteps, len(all))]
		clear(sum)
		kernel.MatVec(sum[:len(part)], powers, at)
		for k := range part {
			part[k] = float32(sum[k])
		}
	}
	if taps[1] != nil {
		spread(taps, all, c.Direction)
	}
	if c.direct != nil {
		taps[0][0] += c.direct[i]
	}
}

func (c *Siso) free(i int, s *record.Sequence, y []float32, state []float64) bool {
	n, all := c.States, len(c.a)
	zr, zi := state[:n], state[n:2*n]
	copy(zr, s.Z[i*n:(i+1)*n])
	copy(zi, s.Z[all+i*n:all+(i+1)*n])
	if zero(zr) && zero(zi) {
		return false
	}
	for t := range y {
		if t%stepsUnchecked == 0 && s.Stopped() {
			return true
		}
		sum := 0.0
		for j := range n {
			a, out := c.step[i*n+j], c.out.At(i*n+j)
			zr[j], zi[j] = real(a)*zr[j]-imag(a)*zi[j], real(a)*zi[j]+imag(a)*zr[j]
			sum += real(out)*zr[j] - imag(out)*zi[j]
		}
		y[t] = float32(sum)
	}
	return true
}
