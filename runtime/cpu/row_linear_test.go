package cpu

import "testing"

func TestLinear(t *testing.T) {
	r := newGen(18)
	for _, size := range [][2]int{{1, 1}, {3, 5}, {17, 8}, {33, 70}} {
		x, w := given(r.floats(1, 2, 5, size[1])), fixed(r.floats(1, size[0], size[1]))
		checkRow(t, "essm.Linear", []operand{x, w})
		checkRow(t, "essm.Linear", []operand{x, w, fixed(r.floats(1, size[0]))})
	}
}
