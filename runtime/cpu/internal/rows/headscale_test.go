package rows_test

import (
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestHeadScale(t *testing.T) {
	r := NewGen(21)
	for _, c := range []struct{ channels, features int }{{1, 1}, {1, 9}, {3, 4}} {
		on.Row(t, "essm.HeadScale",
			[]Operand{Given(r.Floats(1, 2, 7, c.features)), Fixed(r.Floats(1, c.channels, 1, c.features))})
	}
}
