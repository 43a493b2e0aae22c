package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// wide returns small integers in float64, whose products and sums are exact in any order.
func (r gen) wide(shape ...int) operand {
	x := tensor.New(tensor.Float64, shape...)
	for i := range tensor.Data[float64](x) {
		tensor.Data[float64](x)[i] = float64(r.IntN(17) - 8)
	}
	return given(x)
}

func TestWideProducts(t *testing.T) {
	r := newGen(161)
	for _, m := range []int{1, 3, 4, 65, 131} {
		for _, k := range []int{1, 7, 33} {
			for _, n := range []int{1, 7, 8, 19} {
				sameNode(t, "MatMul", 1, []operand{r.wide(m, k), r.wide(k, n)})
				fixedB := r.wide(k, n)
				fixedB.konst = true
				sameNode(t, "MatMul", 1, []operand{r.wide(2, m, k), fixedB})
				sameNode(t, "MatMul", 1, []operand{r.wide(2, 1, m, k), r.wide(3, k, n)})
				for turn := range 4 {
					a, b := []int{m, k}, []int{k, n}
					if turn&1 != 0 {
						a = []int{k, m}
					}
					if turn&2 != 0 {
						b = []int{n, k}
					}
					attrs := []ir.Attr{ir.A("transA", turn&1), ir.A("transB", turn>>1), ir.A("alpha", 0.5), ir.A("beta", -2.0)}
					sameNode(t, "Gemm", 1, []operand{r.wide(a...), r.wide(b...)}, attrs...)
					sameNode(t, "Gemm", 1, []operand{r.wide(a...), r.wide(b...), r.wide(m, 1)}, attrs...)
					sameNode(t, "Gemm", 1, []operand{r.wide(a...), r.wide(b...), r.wide(n)}, attrs[:2]...)
				}
				sameNode(t, "essm.Linear", 1, []operand{r.wide(2, m, k), r.wide(n, k)})
				sameNode(t, "essm.Linear", 1, []operand{r.wide(m, k), r.wide(n, k), r.wide(n)})
			}
		}
	}
}
