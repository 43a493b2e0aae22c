package rows_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestGemm(t *testing.T) {
	r := NewGen(19)
	for _, size := range [][2]int{{1, 1}, {3, 5}, {17, 8}, {33, 70}} {
		n, k := size[0], size[1]
		x := Given(r.Floats(1, 7, k))
		for _, bias := range []Operand{{}, Fixed(r.Floats(1)), Fixed(r.Floats(1, n)), Fixed(r.Floats(1, 1, n))} {
			on.Row(t, "Gemm", []Operand{x, Fixed(r.Floats(1, k, n)), bias}, ir.A("beta", 0.5))
			on.Row(t, "Gemm", []Operand{x, Fixed(r.Floats(1, n, k)), bias}, ir.A("transB", 1), ir.A("alpha", 1.5))
		}
	}
}
