package elementwise_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestWideElements checks expressions in float64.
func TestWideElements(t *testing.T) {
	r := NewGen(184)
	for _, op := range []string{"Exp", "Sqrt", "Tanh", "Sigmoid", "Erf", "Abs", "Neg", "Floor", "Round", "Reciprocal",
		"Gelu", "Softplus", "HardSwish", "Selu", "Mish", "Sign", "Relu"} {
		for _, shape := range [][]int{{}, {0, 3}, {1}, {3, 700}} {
			on.Same(t, op, 1, []Operand{Given(r.Typed(tensor.Float64, shape...))})
		}
	}
	f := func(shape ...int) Operand { return Given(r.Typed(tensor.Float64, shape...)) }
	for _, shapes := range [][2][]int{{{3, 5, 7}, {5, 7}}, {{300}, {1}}, {{}, {5}}, {{4, 1}, {1, 700}}, {{2, 1, 3}, {5, 1}},
		{{}, {}}} {
		for _, op := range []string{"Min", "Max", "Mean", "Sum"} {
			on.Same(t, op, 1, []Operand{f(shapes[0]...), f(shapes[1]...), f(shapes[1]...)})
		}
		on.Same(t, "Pow", 1, []Operand{f(shapes[0]...), f(shapes[1]...)})
		on.Same(t, "Mod", 1, []Operand{f(shapes[0]...), f(shapes[1]...)}, ir.A("fmod", 1))
	}
	on.Same(t, "Clip", 1, []Operand{f(3, 50), f(), f()})
	on.Same(t, "PRelu", 1, []Operand{f(3, 50), f(50)})
}
