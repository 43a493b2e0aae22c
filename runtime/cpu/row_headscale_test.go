package cpu

import "testing"

func TestHeadScale(t *testing.T) {
	r := newGen(21)
	for _, c := range []struct{ channels, features int }{{1, 1}, {1, 9}, {3, 4}} {
		checkRow(t, "essm.HeadScale",
			[]operand{given(r.floats(1, 2, 7, c.features)), fixed(r.floats(1, c.channels, 1, c.features))})
	}
}
