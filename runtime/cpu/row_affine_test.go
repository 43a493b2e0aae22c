package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

func TestAffine(t *testing.T) {
	r := newGen(17)
	for _, f := range []int{1, 3, 8, 33} {
		x, scale, shift := given(r.floats(2, 3, 5, f)), fixed(r.floats(1, f)), fixed(r.floats(1, f))
		checkRow(t, "essm.Affine", []operand{x, fixed(r.doubles(r.NormFloat64, f)), fixed(r.doubles(r.NormFloat64, f))})
		variance := r.floats(1, f)
		for i, v := range tensor.Data[float32](variance) {
			tensor.Data[float32](variance)[i] = 0.1 + v*v
		}
		checkRow(t, "essm.BatchNorm", []operand{x, scale, shift, fixed(r.floats(1, f)), fixed(variance)})
	}
}
