package rows_test

import (
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestScalarNorm(t *testing.T) {
	r := NewGen(16)
	for _, f := range []int{1, 2, 9, 40} {
		on.Row(t, "essm.ScalarNorm", []Operand{Given(r.Floats(3, 2, 7, f)), Fixed(r.Floats(1, 1)), Fixed(r.Floats(1, 1))})
	}
}
