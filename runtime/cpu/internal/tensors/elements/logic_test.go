package elements_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestLogic(t *testing.T) {
	r := NewGen(45)
	bools := func(shape ...int) Operand {
		b := tensor.New(tensor.Bool, shape...)
		for i := range tensor.Data[bool](b) {
			tensor.Data[bool](b)[i] = r.IntN(2) == 0
		}
		return Given(b)
	}
	for _, op := range []string{"And", "Or", "Xor"} {
		on.Same(t, op, 1, []Operand{bools(3, 5), bools(3, 5)})
		on.Same(t, op, 1, []Operand{bools(4, 1, 5), bools(3, 1)})
		on.Same(t, op, 1, []Operand{bools(), bools(3, 4)})
	}
	on.Same(t, "Not", 1, []Operand{bools(3, 5)})
	on.Same(t, "IsNaN", 1, []Operand{Given(r.Odd(3, 50))})
	on.Same(t, "IsInf", 1, []Operand{Given(r.Odd(3, 50))})
	on.Same(t, "IsInf", 1, []Operand{Given(r.Odd(3, 50))}, ir.A("detect_negative", 0))
}
