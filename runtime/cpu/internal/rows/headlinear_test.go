package rows_test

import (
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestHeadLinear tests heads of any size, of channels with and without a shared input.
func TestHeadLinear(t *testing.T) {
	r := NewGen(20)
	for _, c := range []struct{ channels, heads, out, in int }{{1, 1, 1, 1}, {1, 4, 3, 5}, {2, 3, 5, 2}, {1, 5, 1, 1},
		{3, 2, 1, 1}} {
		w := Fixed(r.Floats(1, c.channels, c.heads, c.out, c.in))
		on.Row(t, "essm.HeadLinear", []Operand{Given(r.Floats(1, 2, 7, c.channels*c.heads*c.in)), w})
		on.Row(t, "essm.HeadLinear", []Operand{Given(r.Floats(1, 2, 7, c.heads*c.in)), w})
	}
}
