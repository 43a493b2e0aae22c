package rows_test

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestAffine(t *testing.T) {
	r := NewGen(17)
	for _, f := range []int{1, 3, 8, 33} {
		x, scale, shift := Given(r.Floats(2, 3, 5, f)), Fixed(r.Floats(1, f)), Fixed(r.Floats(1, f))
		on.Row(t, "essm.Affine", []Operand{x, Fixed(r.Doubles(r.NormFloat64, f)), Fixed(r.Doubles(r.NormFloat64, f))})
		variance := r.Floats(1, f)
		for i, v := range tensor.Data[float32](variance) {
			tensor.Data[float32](variance)[i] = 0.1 + v*v
		}
		on.Row(t, "essm.BatchNorm", []Operand{x, scale, shift, Fixed(r.Floats(1, f)), Fixed(variance)})
	}
}
