package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
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
	powers, at := make([]float64, responseSteps*2*n), make([]float64, 2*n)
	z, step := make([]complex128, n), make([]complex128, n)
	for s, v := range a {
		p := complex(1, 0)
		for j := range responseSteps {
			powers[j*2*n+s], powers[j*2*n+n+s] = real(p), -imag(p)
			p *= c.step[i*n+s]
		}
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
		for k := 0; k < min(responseSteps, len(all)-lo); k += 4 {
			sums := fourDots(powers[k*2*n:(k+4)*2*n], at)
			for j := range sums[:min(4, len(all)-lo-k)] {
				all[lo+k+j] = float32(sums[j])
			}
		}
	}
	if taps[1] != nil {
		spread(taps, all, c.Direction)
	}
	if c.direct != nil {
		taps[0][0] += c.direct[i]
	}
}

// fourDots returns the products of four rows with x.
func fourDots(rows, x []float64) (sums [4]float64) {
	n := len(x)
	r0, r1, r2, r3 := rows[:n], rows[n:2*n], rows[2*n:3*n], rows[3*n:4*n]
	var s0, s1, s2, s3 float64 // in registers
	for i, v := range x {
		s0 += r0[i] * v
		s1 += r1[i] * v
		s2 += r2[i] * v
		s3 += r3[i] * v
	}
	return [4]float64{s0, s1, s2, s3}
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
