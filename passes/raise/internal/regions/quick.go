package regions

import (
	"fmt"
	"math/bits"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes"
)

// quickConv computes a long depthwise convolution along one axis by transform, within the budget and the limit of e. It
// returns false for any other node.
func quickConv(e *eval.Constants, n *ir.Node, in []tensor.Datum) (out []tensor.Datum, ok bool, err error) {
	if n.Op.FullName() != "Conv" || len(in) > 2 && in[2] != nil {
		return nil, false, nil
	}
	x, w := ops.Tensor(in, 0), ops.Tensor(in, 1)
	if x.Rank() != 3 || w.Rank() != 3 || w.Dim(0) != x.Dim(1) || w.Dim(1) != 1 || w.Dim(2)*x.Dim(2) < 1<<14 {
		return nil, false, nil
	}
	ws, err := ops.Windows(n, 1)
	if err != nil || ws[0].Stride != 1 || n.Attrs.Int("group", 1) != int64(w.Dim(0)) {
		return nil, false, nil
	}
	l, k := x.Dim(2), w.Dim(2)
	win := ws[0].Bind(int64(l), int64(k))
	d, begin, end := int(win.Dilation), int(win.Begin), int(win.End)
	reach := (k - 1) * d
	steps := l + begin + end
	if begin < 0 || end < 0 || max(begin, end, d, reach) >= MaxElements || steps-reach < 1 {
		return nil, false, nil
	}
	rows := x.Dim(0) * x.Dim(1)
	if err := e.Budget.Spend(WorkOfConvolution(2*steps, rows+w.Dim(0))); err != nil {
		return nil, false, err
	}
	size := int64(rows) * int64(steps-reach)
	bytes := 8 * (size + int64(x.Len()+w.Len()) + 10*int64(steps))
	if size > MaxElements {
		return nil, false, fmt.Errorf("%v has %d elements, more than are evaluated (%d)", n, size, MaxElements)
	} else if err := e.Budget.Take(bytes); err != nil {
		return nil, false, err
	}
	defer e.Budget.Release(bytes)
	xv, wv := ops.F64(nil, in, 0), ops.F64(nil, in, 1)
	y, length := make([]float64, size), steps-reach
	err = passes.Apart(e.Ctx, func() {
		conv, row, taps := NewConvolver(steps), make([]float64, steps), make([]float64, reach+1)
		for c := range w.Dim(0) {
			// y[t] = Σ w[j]·row[t+j·d]. With the lags reversed, this is step t+reach of a causal convolution.
			clear(taps)
			for j := range k {
				taps[reach-j*d] = wv[c*k+j]
			}
			spectrum := conv.Spectrum(taps, nil)
			for b := range x.Dim(0) {
				if e.Ctx.Err() != nil {
					return
				}
				clear(row)
				copy(row[begin:], xv[(b*x.Dim(1)+c)*l:][:l])
				copy(y[(b*x.Dim(1)+c)*length:][:length], conv.Apply(row, spectrum)[reach:])
			}
		}
	})
	if err != nil {
		return nil, false, err
	}
	return []tensor.Datum{tensor.FromSlice(y, x.Dim(0), x.Dim(1), length)}, true, nil
}

// WorkOfConvolution is the approximate work of count transforms and their inverses over a number of steps.
func WorkOfConvolution(steps, count int) int64 {
	return int64(count) * int64(steps) * int64(20*bits.Len(uint(steps)))
}

// Convolver convolves rows of one length with two-sided kernels.
type Convolver struct {
	length int
	fft    *fourier.FFT
	pad    []float64
}

// NewConvolver returns a convolver for rows of the given length.
func NewConvolver(length int) *Convolver {
	size := 2
	for size < 2*length {
		size *= 2
	}
	return &Convolver{length, fourier.NewFFT(size), make([]float64, size)}
}

// Spectrum returns the transform of a kernel: fwd has lags 0, 1, …, bwd lags -1, -2, ….
func (c *Convolver) Spectrum(fwd, bwd []float64) []complex128 {
	clear(c.pad)
	copy(c.pad, fwd)
	for j, v := range bwd {
		c.pad[len(c.pad)-1-j] += v
	}
	return c.fft.Coefficients(nil, c.pad)
}

// Apply convolves a row with the kernel of a spectrum.
func (c *Convolver) Apply(row []float64, spectrum []complex128) []float64 {
	clear(c.pad)
	copy(c.pad, row)
	z := c.fft.Coefficients(nil, c.pad)
	for i := range z {
		z[i] *= spectrum[i] / complex(float64(len(c.pad)), 0)
	}
	return c.fft.Sequence(nil, z)[:c.length]
}
