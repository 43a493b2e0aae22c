package products_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestWideProducts(t *testing.T) {
	r := NewGen(161)
	for _, m := range []int{1, 3, 4, 65, 131} {
		for _, k := range []int{1, 7, 33} {
			for _, n := range []int{1, 7, 8, 19} {
				on.Same(t, "MatMul", 1, []Operand{r.Wide(m, k), r.Wide(k, n)})
				fixedB := r.Wide(k, n)
				fixedB.Const = true
				on.Same(t, "MatMul", 1, []Operand{r.Wide(2, m, k), fixedB})
				on.Same(t, "MatMul", 1, []Operand{r.Wide(2, 1, m, k), r.Wide(3, k, n)})
				for turn := range 4 {
					a, b := []int{m, k}, []int{k, n}
					if turn&1 != 0 {
						a = []int{k, m}
					}
					if turn&2 != 0 {
						b = []int{n, k}
					}
					attrs := []ir.Attr{ir.A("transA", turn&1), ir.A("transB", turn>>1), ir.A("alpha", 0.5), ir.A("beta", -2.0)}
					on.Same(t, "Gemm", 1, []Operand{r.Wide(a...), r.Wide(b...)}, attrs...)
					on.Same(t, "Gemm", 1, []Operand{r.Wide(a...), r.Wide(b...), r.Wide(m, 1)}, attrs...)
					on.Same(t, "Gemm", 1, []Operand{r.Wide(a...), r.Wide(b...), r.Wide(n)}, attrs[:2]...)
				}
				on.Same(t, "essm.Linear", 1, []Operand{r.Wide(2, m, k), r.Wide(n, k)})
				on.Same(t, "essm.Linear", 1, []Operand{r.Wide(m, k), r.Wide(n, k), r.Wide(n)})
			}
		}
	}
}
