package cpu

import "testing"

func TestScalarNorm(t *testing.T) {
	r := newGen(16)
	for _, f := range []int{1, 2, 9, 40} {
		checkRow(t, "essm.ScalarNorm", []operand{given(r.floats(3, 2, 7, f)), fixed(r.floats(1, 1)), fixed(r.floats(1, 1))})
	}
}
