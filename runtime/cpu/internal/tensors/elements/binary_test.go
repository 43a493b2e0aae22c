package elements_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestBinary(t *testing.T) {
	r := NewGen(5)
	for _, shapes := range [][2][]int{
		{{2, 3, 5, 7}, {3, 1, 1}}, {{1, 1, 1, 1}, {2, 3, 4, 5}}, {{6, 1}, {1, 9}}, {{2, 17, 33}, {2, 17, 33}},
		{{2, 3, 4}, {}},
		{{5, 1, 7}, {5, 4, 1}}, {{3, 8, 1, 2}, {1, 8, 5, 2}}, {{40, 1000}, {40, 1}}, {{1}, {1, 1}}, {{0, 3}, {1}},
	} {
		for _, op := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min"} {
			a, b := r.Floats(1, shapes[0]...), r.Floats(1, shapes[1]...)
			if a.Len() > 6 && b.Len() > 6 {
				With(With(a, 3, math.NaN()), 5, math.Inf(1))
				With(b, 2, math.NaN())
			}
			on.Node(t, op, 1, []Operand{Given(a), Given(b)})
			on.Node(t, op, 1, []Operand{Fixed(a), Given(b)})
			on.Node(t, op, 1, []Operand{Given(b), Fixed(a)})
		}
		a, b := r.Floats(1, shapes[0]...), r.Floats(1, shapes[1]...)
		for _, op := range []string{"Equal", "Less", "GreaterOrEqual"} {
			on.Node(t, op, 1, []Operand{Given(With(a.Clone(), 0, math.NaN())), Given(b)})
			x, y := tensor.New(tensor.Int64, shapes[0]...), tensor.New(tensor.Int64, shapes[1]...)
			for i := range tensor.Data[int64](x) {
				tensor.Data[int64](x)[i] = int64(r.IntN(3))
			}
			on.Node(t, op, 1, []Operand{Given(x), Given(y)})
		}
		shape, _ := ops.Broadcast(shapes[0], shapes[1])
		c := tensor.New(tensor.Bool, shape...)
		for i := range tensor.Data[bool](c) {
			tensor.Data[bool](c)[i] = r.IntN(2) == 0
		}
		on.Node(t, "Where", 1, []Operand{Given(c), Given(a), Given(b)})
		on.Node(t, "Cast", 1, []Operand{Given(c)}, ir.A("to", int(tensor.Float32)))
		on.Node(t, "Pow", 1, []Operand{Given(a), Fixed(tensor.Scalar(float32(2)))})
		on.Node(t, "Pow", 1, []Operand{Given(a), Given(b)})
	}
}
