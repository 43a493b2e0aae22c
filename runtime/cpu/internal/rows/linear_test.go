package rows_test

import (
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestLinear(t *testing.T) {
	r := NewGen(18)
	for _, size := range [][2]int{{1, 1}, {3, 5}, {17, 8}, {33, 70}} {
		x, w := Given(r.Floats(1, 2, 5, size[1])), Fixed(r.Floats(1, size[0], size[1]))
		on.Row(t, "essm.Linear", []Operand{x, w})
		on.Row(t, "essm.Linear", []Operand{x, w, Fixed(r.Floats(1, size[0]))})
	}
}
