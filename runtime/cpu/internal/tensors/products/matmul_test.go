package products_test

import (
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestMatMul(t *testing.T) {
	r := NewGen(11)
	for _, c := range [][2][]int{{{3, 5}, {5, 7}}, {{1, 40}, {40, 33}}, {{2, 3, 7, 16}, {2, 3, 16, 18}},
		{{2, 1, 4, 5}, {3, 5, 1}}, {{64, 96}, {96, 130}}} {
		on.Node(t, "MatMul", 1, []Operand{Given(r.Floats(1, c[0]...)), Given(r.Floats(1, c[1]...))})
	}
}
