package rows_test

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestDropout(t *testing.T) {
	r := NewGen(50)
	on.Same(t, "Dropout", 1, []Operand{Given(r.Odd(3, 5))})
	on.Same(t, "Dropout", 1,
		[]Operand{Given(r.Odd(3, 5)), Fixed(tensor.Scalar(float32(0.3))), Fixed(tensor.Scalar(false))})
}
