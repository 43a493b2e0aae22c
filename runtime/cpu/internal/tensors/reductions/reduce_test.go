package reductions_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestReduce(t *testing.T) {
	r := NewGen(7)
	for _, c := range []struct {
		shape []int
		axes  []int64
	}{{[]int{3, 5, 7}, []int64{2}}, {[]int{3, 5, 7}, []int64{1}}, {[]int{3, 5, 33}, []int64{0, 1}},
		{[]int{2, 3, 4, 5}, []int64{-1, -2}}, {[]int{2, 9000}, []int64{1}}, {[]int{6}, []int64{0}},
		{[]int{200, 3}, []int64{1}}} {
		for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceSumSquare", "ReduceL2"} {
			for _, keep := range []int{0, 1} {
				on.Node(t, op, 1, []Operand{Given(r.Floats(1, c.shape...)), Ints(c.axes...)}, ir.A("keepdims", keep))
			}
		}
		on.Node(t, "ReduceMax", 1, []Operand{Given(With(r.Floats(1, c.shape...), 1, math.NaN())), Ints(c.axes...)})
	}
	on.Node(t, "ReduceMean", 1, []Operand{Given(r.Floats(1, 4, 5))})
	for _, op := range []string{"GlobalAveragePool", "GlobalMaxPool"} {
		on.Node(t, op, 1, []Operand{Given(r.Floats(1, 2, 3, 7, 9))})
		on.Node(t, op, 1, []Operand{Given(r.Floats(1, 2, 3, 70))})
	}
}

func TestReduceMore(t *testing.T) {
	r := NewGen(47)
	for _, axes := range [][]int64{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}} {
		for _, op := range []string{"ReduceMin", "ReduceProd", "ReduceL1"} {
			on.Node(t, op, 1, []Operand{Given(r.Floats(1, 3, 5, 33)), Ints(axes...)})
			on.Node(t, op, 1, []Operand{Given(With(r.Floats(1, 3, 5, 33), 7, math.NaN())), Ints(axes...)},
				ir.A("keepdims", 0))
		}
		on.Node(t, "ReduceLogSum", 1, []Operand{Given(r.Scales(0.5, 3, 5, 33)), Ints(axes...)})
	}
}
