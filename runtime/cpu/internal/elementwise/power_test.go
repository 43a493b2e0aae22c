package elementwise_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
	"github.com/essmc/essmc/runtime/ref"
)

// TestPowerOfHalf checks that Pow by one half is not the square root for -0 and -∞, as C's and numpy's pow.
func TestPowerOfHalf(t *testing.T) {
	inf := float32(math.Inf(1))
	in := []float32{float32(math.Copysign(0, -1)), 0, -inf, inf, -1, 4, float32(math.NaN()), 1e-45, -1e-45, math.MaxFloat32}
	want := []float32{0, 0, inf, inf, float32(math.NaN()), 2, float32(math.NaN()), float32(math.Sqrt(math.SmallestNonzeroFloat32)),
		float32(math.NaN()), float32(math.Sqrt(math.MaxFloat32))}
	for _, n := range []int{1, 3, 9, 64, 131} { // a block and more
		x, y := make([]float32, n*len(in)), make([]float32, n*len(in))
		for i := range x {
			x[i], y[i] = in[i/n], want[i/n]
		}
		operands := []Operand{Given(tensor.FromSlice(x, len(x))), Fixed(tensor.Scalar(float32(0.5)))}
		for _, b := range []runtime.Backend{cpu.New(), ref.New()} {
			g, feed := NodeGraph(t, "Pow", 1, operands)
			for _, got := range Run(t, g, runtime.Options{Backend: b}, feed) {
				if !SameNumbers(got.(*tensor.Tensor), tensor.FromSlice(y, len(y))) {
					t.Errorf("%d of each of %v: expected %v, found %.300s", n, in, want,
						fmt.Sprint(tensor.Data[float32](got.(*tensor.Tensor))))
				}
			}
		}
	}
}
