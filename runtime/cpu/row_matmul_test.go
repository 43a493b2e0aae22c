package cpu

import "testing"

// TestRowMatMul tests products with a constant matrix.
func TestRowMatMul(t *testing.T) {
	r := newGen(23)
	for _, size := range [][2]int{{1, 1}, {3, 5}, {17, 8}, {33, 70}} {
		checkRow(t, "MatMul", []operand{given(r.floats(1, 2, 5, size[0])), fixed(r.floats(1, size[0], size[1]))})
	}
}
