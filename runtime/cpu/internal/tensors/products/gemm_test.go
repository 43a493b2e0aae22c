package products_test

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestGemmOfComputed checks products of matrices that are computed, with all ways to give C.
func TestGemmOfComputed(t *testing.T) {
	r := NewGen(174)
	for i, size := range [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 33, 9}, {50, 64, 48}, {2, 300, 130}, {130, 7, 65},
		{65, 1000, 33}} {
		m, k, n := size[0], size[1], size[2]
		for turn := range 4 {
			a, b := []int{m, k}, []int{k, n}
			if turn&1 != 0 {
				a = []int{k, m}
			}
			if turn&2 != 0 {
				b = []int{n, k}
			}
			attrs := []ir.Attr{ir.A("transA", turn&1), ir.A("transB", turn>>1)}
			x, w := Given(r.Floats(1, a...)), r.Floats(1, b...)
			on.Node(t, "Gemm", 1, []Operand{x, Given(w)}, attrs...)
			if i%2 == 0 {
				attrs = append(attrs, ir.A("alpha", 0.5), ir.A("beta", -1.5))
			}
			on.Node(t, "Gemm", 1, []Operand{x, Given(w)}, attrs...)
			for _, c := range [][]int{{n}, {m, n}, {m, 1}, {1, n}, {1}, {}} {
				on.Node(t, "Gemm", 1, []Operand{x, Given(w), Given(r.Floats(1, c...))}, attrs...)
				on.Node(t, "Gemm", 1, []Operand{x, Fixed(w), Given(r.Floats(1, c...))}, attrs...)
				if t.Failed() {
					t.Fatal(fmt.Sprint(size, turn, c))
				}
			}
		}
	}
}
