package elements_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestCastNumbers(t *testing.T) {
	r := NewGen(171)
	for _, from := range NumberTypes {
		for _, to := range []tensor.DType{tensor.Bool, tensor.Int8, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Float32,
			tensor.Float64} {
			for _, n := range []int{0, 1, 9, 3000} {
				if from == to && from != tensor.Float32 || from == tensor.Bool && to == tensor.Bool {
					continue
				}
				on.Same(t, "Cast", 1, []Operand{Given(r.Typed(from, n))}, ir.A("to", int(to)))
			}
		}
	}
}
