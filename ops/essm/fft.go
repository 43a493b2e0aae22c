package essm

import (
	"math"
	"math/bits"
	"math/cmplx"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// fft transforms z in place (inverse: without the factor 1/n). The length is a power of two. It is the plain transform
// that defines the FFT form; backends have their own.
func fft(c *ir.EvalCtx, z []complex128, inverse bool) {
	n := len(z)
	shift := 64 - bits.Len(uint(n-1))
	if n < 2 {
		return
	}
	for i := range ops.Each(c, len(z)) {
		if j := int(bits.Reverse64(uint64(i)) >> shift); j > i {
			z[i], z[j] = z[j], z[i]
		}
	}
	sign := -2 * math.Pi
	if inverse {
		sign = -sign
	}
	w := ops.Make[complex128](c, n/2)
	for i := range ops.Each(c, len(w)) {
		w[i] = cmplx.Rect(1, sign*float64(i)/float64(n))
	}
	for half := 1; half < n; half *= 2 {
		step := n / (2 * half)
		for lo := 0; lo < n; lo += 2 * half {
			c.Step(1)
			for k := range ops.Each(c, half) {
				t := w[k*step] * z[lo+half+k]
				z[lo+half+k] = z[lo+k] - t
				z[lo+k] += t
			}
		}
	}
}

func powerOfTwo(n int) int {
	if n < 2 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}
