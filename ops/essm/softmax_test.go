package essm_test

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// TestSoftmaxConv compares SoftmaxConv with the definition of its kernel: row-wise softmax over lags, for states that decay
// and states that grow.
func TestSoftmaxConv(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const batch, features, n, epsilon = 2, 3, 5, 1e-7
	for _, length := range []int{1, 2, 17} {
		for _, window := range []int{0, 6, 40} {
			for _, direction := range []string{"forward", "bidirectional"} {
				u := random(r, batch, length, features)
				in := []*tensor.Tensor{u}
				for range 8 {
					in = append(in, random(r, features, n))
				}
				at := func(i, j int) complex128 {
					return complex(tensor.Data[float64](in[i])[j], tensor.Data[float64](in[i+1])[j])
				}
				for j := range features * n { // a = 0.1λ
					for part := range 2 {
						tensor.Data[float64](in[1+part])[j] = 0.1 * tensor.Data[float64](in[3+part])[j]
					}
				}
				taps := length
				if window > 0 {
					taps = min(taps, window)
				}
				kernel := func(i, half int) []float64 {
					k := make([]float64, taps)
					for j := i * n; j < (i+1)*n; j++ {
						x, last := at(1, j), 0
						if real(at(3, j)) > 0 {
							x, last = -x, taps-1
						}
						q := (cmplx.Exp(x*complex(float64(taps), 0)) - 1) * at(3, j)
						c := at(5+2*half, j) * (cmplx.Exp(x) - 1) * cmplx.Conj(q) / complex(math.Pow(cmplx.Abs(q), 2)+epsilon, 0)
						for t := range k {
							k[t] += real(c * cmplx.Exp(at(1, j)*complex(float64(t-last), 0)))
						}
					}
					return k
				}
				want := tensor.New(tensor.Float64, batch, length, features)
				for i := range features {
					first, second := kernel(i, 0), kernel(i, 1)
					for b := range batch {
						for t := range length {
							sum := 0.0
							for k := range taps {
								if t-k >= 0 {
									sum += first[k] * tensor.Data[float64](u)[(b*length+t-k)*features+i]
								}
								if q := t + 1 + k; direction == "bidirectional" && q < length {
									sum += second[k] * tensor.Data[float64](u)[(b*length+q)*features+i]
								}
							}
							tensor.Data[float64](want)[(b*length+t)*features+i] = sum
						}
					}
				}
				args := in
				if direction == "forward" {
					args = in[:7]
				}
				for _, form := range []string{"", "fft", "direct"} {
					got := apply(t, essm.SoftmaxConv, form, []bool{true}, args, ir.A("direction", direction), ir.A("window", window))
					if d := differ(got[0], want); d > 1e-11 {
						t.Error(fmt.Sprint(length, " steps, window ", window, ", ", direction, ", form ", form), d)
					}
				}
			}
		}
	}
}
