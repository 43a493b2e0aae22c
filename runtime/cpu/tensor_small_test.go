package cpu

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

var nans = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}

// odd returns random numbers, some of them not finite.
func (r gen) odd(shape ...int) *tensor.Tensor {
	t := r.floats(2, shape...)
	for i := range t.Len() {
		if r.IntN(9) == 0 {
			with(t, i, nans[r.IntN(len(nans))])
		}
	}
	return t
}

func TestUnary(t *testing.T) {
	r := newGen(44)
	for _, op := range []string{"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
		"Floor", "Ceil", "Round", "Sign"} {
		sameNode(t, op, 1, []operand{given(r.odd(3, 50))})
	}
}

func TestLogic(t *testing.T) {
	r := newGen(45)
	bools := func(shape ...int) operand {
		b := tensor.New(tensor.Bool, shape...)
		for i := range tensor.Data[bool](b) {
			tensor.Data[bool](b)[i] = r.IntN(2) == 0
		}
		return given(b)
	}
	for _, op := range []string{"And", "Or", "Xor"} {
		sameNode(t, op, 1, []operand{bools(3, 5), bools(3, 5)})
		sameNode(t, op, 1, []operand{bools(4, 1, 5), bools(3, 1)})
		sameNode(t, op, 1, []operand{bools(), bools(3, 4)})
	}
	sameNode(t, "Not", 1, []operand{bools(3, 5)})
	sameNode(t, "IsNaN", 1, []operand{given(r.odd(3, 50))})
	sameNode(t, "IsInf", 1, []operand{given(r.odd(3, 50))})
	sameNode(t, "IsInf", 1, []operand{given(r.odd(3, 50))}, ir.A("detect_negative", 0))
}

func TestArgExtreme(t *testing.T) {
	r := newGen(46)
	for axis := range 3 {
		for _, op := range []string{"ArgMax", "ArgMin"} {
			for _, x := range []*tensor.Tensor{r.floats(1, 4, 5, 6), r.odd(4, 5, 6),
				tensor.New(tensor.Float32, 4, 5, 6)} {
				sameNode(t, op, 1, []operand{given(x)}, ir.A("axis", axis), ir.A("keepdims", 0))
				sameNode(t, op, 1, []operand{given(x)}, ir.A("axis", axis-3), ir.A("select_last_index", 1))
			}
		}
	}
}

func TestReduceMore(t *testing.T) {
	r := newGen(47)
	for _, axes := range [][]int64{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}} {
		for _, op := range []string{"ReduceMin", "ReduceProd", "ReduceL1"} {
			checkNode(t, op, 1, []operand{given(r.floats(1, 3, 5, 33)), ints(axes...)})
			checkNode(t, op, 1, []operand{given(with(r.floats(1, 3, 5, 33), 7, math.NaN())), ints(axes...)},
				ir.A("keepdims", 0))
		}
		checkNode(t, "ReduceLogSum", 1, []operand{given(r.scales(0.5, 3, 5, 33)), ints(axes...)})
	}
}

func TestTrilu(t *testing.T) {
	r := newGen(48)
	for _, k := range []int64{0, 1, -2, 100, -100} {
		for _, upper := range []int{0, 1} {
			at := fixed(tensor.Scalar(k))
			sameNode(t, "Trilu", 1, []operand{given(r.odd(2, 4, 6)), at}, ir.A("upper", upper))
			sameNode(t, "Trilu", 1, []operand{given(r.indices([]int{9}, 6, 4)), at}, ir.A("upper", upper))
			sameNode(t, "Trilu", 1, []operand{given(r.bytes(tensor.Int8, 5, 5)), at}, ir.A("upper", upper))
		}
	}
	sameNode(t, "Trilu", 1, []operand{given(r.odd(2, 4, 6))})
}

func TestOneHot(t *testing.T) {
	r := newGen(49)
	depth, values := fixed(tensor.Scalar(int64(5))), fixed(tensor.FromSlice([]float32{-1, 2}, 2))
	for axis := range 3 {
		at := r.indices([]int{7}, 3, 4)
		sameNode(t, "OneHot", 1, []operand{given(at), depth, values}, ir.A("axis", axis-3))
		sameNode(t, "OneHot", 1, []operand{given(narrowed(at)), depth, values}, ir.A("axis", axis))
	}
	sameAnyhow(t, "OneHot", 1, []operand{given(r.floats(3, 9)), depth, values})
}
