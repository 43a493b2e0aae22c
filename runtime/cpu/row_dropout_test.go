package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

func TestDropout(t *testing.T) {
	r := newGen(50)
	sameNode(t, "Dropout", 1, []operand{given(r.odd(3, 5))})
	sameNode(t, "Dropout", 1,
		[]operand{given(r.odd(3, 5)), fixed(tensor.Scalar(float32(0.3))), fixed(tensor.Scalar(false))})
}
