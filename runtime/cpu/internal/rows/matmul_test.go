package rows_test

import (
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestRowMatMul tests products with a constant matrix.
func TestRowMatMul(t *testing.T) {
	r := NewGen(23)
	for _, size := range [][2]int{{1, 1}, {3, 5}, {17, 8}, {33, 70}} {
		on.Row(t, "MatMul", []Operand{Given(r.Floats(1, 2, 5, size[0])), Fixed(r.Floats(1, size[0], size[1]))})
	}
}
