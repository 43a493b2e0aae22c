package reductions_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestLRN checks sums over neighbouring channels.
func TestLRN(t *testing.T) {
	r := NewGen(181)
	for _, d := range Reals {
		for _, shape := range [][]int{{1, 1}, {2, 5}, {3, 7, 11}, {2, 9, 13, 5}, {1, 3, 47, 61}} {
			for _, size := range []int{1, 2, 5, 40} {
				for _, beta := range []float64{0.75, 0.5, 1, 0.3} {
					on.Node(t, "LRN", 1, []Operand{Given(r.Real(d, 1, shape...))}, ir.A("size", size),
						ir.A("alpha", 0.7), ir.A("beta", beta), ir.A("bias", 1.5))
				}
			}
		}
	}
}
