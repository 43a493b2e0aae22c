package elements_test

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestIntegerBinary(t *testing.T) {
	r := NewGen(27)
	for _, shapes := range [][2][]int{{{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{3, 1}, {4}}, {{}, {5}}, {{2, 3, 1}, {1, 1, 6}},
		{{7}, {1}}} {
		a, b := tensor.New(tensor.Int32, shapes[0]...), tensor.New(tensor.Int32, shapes[1]...)
		c, d := tensor.New(tensor.Int64, shapes[0]...), tensor.New(tensor.Int64, shapes[1]...)
		for i := range a.Len() {
			tensor.Data[int32](a)[i], tensor.Data[int64](c)[i] = int32(r.Uint32()), int64(r.Uint64())
		}
		for i := range b.Len() {
			tensor.Data[int32](b)[i], tensor.Data[int64](d)[i] = int32(r.Uint32()), int64(r.Uint64())
		}
		for _, op := range []string{"Add", "Sub", "Mul"} {
			on.Same(t, op, 1, []Operand{Given(a), Given(b)})
			on.Same(t, op, 1, []Operand{Given(c), Given(d)})
		}
		on.SameAnyhow(t, "Div", 1, []Operand{Given(a), Given(b)})
	}
}
