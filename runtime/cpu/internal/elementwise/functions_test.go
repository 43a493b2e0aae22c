package elementwise_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestFunctions(t *testing.T) {
	r := NewGen(6)
	x := With(With(r.Floats(3, 3, 7, 19), 4, math.NaN()), 9, math.Inf(-1))
	for _, op := range []string{"HardSwish", "HardSigmoid", "Log", "Reciprocal", "Sqrt", "Exp", "Relu", "LeakyRelu",
		"Sigmoid", "Tanh", "Erf", "Softmax", "LogSoftmax", "Neg", "Abs"} {
		on.Node(t, op, 1, []Operand{Given(x)})
	}
	for _, shape := range [][]int{{1, 1}, {5, 300}, {2, 3, 8}} {
		on.Node(t, "Softmax", 1, []Operand{Given(r.Floats(30, shape...))})
		on.Node(t, "LogSoftmax", 1, []Operand{Given(r.Floats(30, shape...))})
	}
	on.Node(t, "BatchNormalization", 1,
		[]Operand{Given(r.Floats(1, 2, 5, 3, 11)), Fixed(r.Floats(1, 5)), Fixed(r.Floats(1, 5)), Fixed(r.Floats(1, 5)),
			Fixed(tensor.FromSlice([]float32{1, 0.1, 2, 3, 0.5}, 5))})
}

func TestUnary(t *testing.T) {
	r := NewGen(44)
	for _, op := range []string{"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
		"Floor", "Ceil", "Round", "Sign"} {
		on.Same(t, op, 1, []Operand{Given(r.Odd(3, 50))})
	}
}
