package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir"
)

func TestGemm(t *testing.T) {
	r := newGen(19)
	for _, size := range [][2]int{{1, 1}, {3, 5}, {17, 8}, {33, 70}} {
		n, k := size[0], size[1]
		x := given(r.floats(1, 7, k))
		for _, bias := range []operand{{}, fixed(r.floats(1)), fixed(r.floats(1, n)), fixed(r.floats(1, 1, n))} {
			checkRow(t, "Gemm", []operand{x, fixed(r.floats(1, k, n)), bias}, ir.A("beta", 0.5))
			checkRow(t, "Gemm", []operand{x, fixed(r.floats(1, n, k)), bias}, ir.A("transB", 1), ir.A("alpha", 1.5))
		}
	}
}
