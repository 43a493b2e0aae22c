package cpu

import "testing"

// TestHeadLinear tests heads of any size, of channels with and without a shared input.
func TestHeadLinear(t *testing.T) {
	r := newGen(20)
	for _, c := range []struct{ channels, heads, out, in int }{{1, 1, 1, 1}, {1, 4, 3, 5}, {2, 3, 5, 2}, {1, 5, 1, 1},
		{3, 2, 1, 1}} {
		w := fixed(r.floats(1, c.channels, c.heads, c.out, c.in))
		checkRow(t, "essm.HeadLinear", []operand{given(r.floats(1, 2, 7, c.channels*c.heads*c.in)), w})
		checkRow(t, "essm.HeadLinear", []operand{given(r.floats(1, 2, 7, c.heads*c.in)), w})
	}
}
