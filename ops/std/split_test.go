package std

import (
	"testing"

	"github.com/essmc/essmc/ir"
)

// TestEqualParts checks that inference and evaluation of equal parts agree, even if there are fewer elements than
// parts.
func TestEqualParts(t *testing.T) {
	for dim := range 12 {
		for count := 1; count < 7; count++ {
			for i, want := range equalParts(nil, dim, count) {
				if n, ok := equalPart(ir.Const(int64(dim)), int64(i), int64(count)).Known(); !ok || n != want {
					t.Errorf("part %d of %d of %d elements: %d, expected %d", i, count, dim, n, want)
				}
				if n, err := equalPart(ir.Sym("L"), int64(i),
					int64(count)).Eval(map[string]int64{"L": int64(dim)}); err != nil || n != want {
					t.Errorf("part %d of %d of L = %d elements: %d, expected %d: %v", i, count, dim, n, want, err)
				}
			}
		}
	}
}
