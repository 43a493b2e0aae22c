package std

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

// TestClipBoundsWithAxes checks bounds of one element with more axes than the input. The result has the input's shape.
func TestClipBoundsWithAxes(t *testing.T) {
	x := tensor.FromSlice([]float32{-3, 0.5, 2}, 3)
	in := []tensor.Datum{x, tensor.FromSlice([]float32{0}, 1, 1), tensor.FromSlice([]float32{1}, 1)}
	got, err := eval(plainNode(t, Clip, of(in...)), in, false)
	if err != nil || !tensor.Equal(got[0].(*tensor.Tensor), tensor.FromSlice([]float32{0, 0.5, 1}, 3)) {
		t.Errorf("%v, %v", got, err)
	}
}
