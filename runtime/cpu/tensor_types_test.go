package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// typed returns random numbers of an element type; some are not finite, or far from zero.
func (r gen) typed(d tensor.DType, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]float64, n)
	for i := range v {
		switch v[i] = math.Round(r.NormFloat64()*1e4) / 64; r.IntN(8) {
		case 0:
			v[i] = nans[r.IntN(len(nans))]
		case 1:
			v[i] = math.Ldexp(r.NormFloat64(), r.IntN(70))
		}
		if !d.IsFloat() && (v[i] != v[i] || math.Abs(v[i]) > 1e18) {
			v[i] = float64(r.IntN(5))
		}
	}
	t, err := ops.FromFloat64s(nil, d, v, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

var numberTypes = []tensor.DType{tensor.Bool, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8,
	tensor.Uint16, tensor.Uint32, tensor.Float32, tensor.Float64}

func TestCastNumbers(t *testing.T) {
	r := newGen(171)
	for _, from := range numberTypes {
		for _, to := range []tensor.DType{tensor.Bool, tensor.Int8, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Float32,
			tensor.Float64} {
			for _, n := range []int{0, 1, 9, 3000} {
				if from == to && from != tensor.Float32 || from == tensor.Bool && to == tensor.Bool {
					continue
				}
				sameNode(t, "Cast", 1, []operand{given(r.typed(from, n))}, ir.A("to", int(to)))
			}
		}
	}
}

func TestArithmeticOfTypes(t *testing.T) {
	r := newGen(172)
	for _, shapes := range [][2][]int{{{3, 5, 7}, {5, 7}}, {{300}, {1}}, {{}, {5}}, {{4, 1}, {1, 700}},
		{{2, 1, 3}, {5, 1}}, {{0, 3}, {3}}, {{}, {}}, {{2, 1, 1}, {1, 3, 1}}} {
		for _, d := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.Float64, tensor.Uint8} {
			a, b := given(r.typed(d, shapes[0]...)), given(r.typed(d, shapes[1]...))
			for _, op := range []string{"Add", "Sub", "Mul", "Min", "Max", "Div", "BitwiseAnd", "BitwiseOr", "BitwiseXor"} {
				switch float := d == tensor.Float64; {
				case float && (op[0] == 'B' || op[0] == 'M' && op != "Mul"), !float && op == "Div":
				default:
					sameNode(t, op, 1, []operand{a, b})
					sameNode(t, op, 1, []operand{b, a})
				}
			}
			for _, op := range []string{"Less", "Equal", "Greater", "LessOrEqual", "GreaterOrEqual"} {
				if d != tensor.Uint8 {
					sameNode(t, op, 1, []operand{a, b})
					sameNode(t, op, 1, []operand{b, a})
				}
			}
		}
		sameNode(t, "Not", 1, []operand{given(r.typed(tensor.Bool, shapes[0]...))})
	}
}

func TestMovesOfTypes(t *testing.T) {
	r := newGen(173)
	for _, d := range append([]tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Uint64}, numberTypes...) {
		x, y := r.typed(d, 2, 3, 5), r.typed(d, 2, 1, 5)
		sameNode(t, "Concat", 1, []operand{given(x), given(y), given(x)}, ir.A("axis", 1))
		sameNode(t, "Concat", 1, []operand{given(x), given(x)}, ir.A("axis", -1))
		sameNode(t, "Transpose", 1, []operand{given(x)}, ir.A("perm", []int{2, 0, 1}))
		sameNode(t, "Expand", 1, []operand{given(y), ints(2, 4, 5)})
		sameNode(t, "Tile", 1, []operand{given(y), ints(1, 2, 3)})
		sameNode(t, "Slice", 1, []operand{given(x), ints(0, 1), ints(2, 5), ints(0, 2), ints(1, 2)})
	}
}

// TestGemmOfComputed checks products of matrices that are computed, with all ways to give C.
func TestGemmOfComputed(t *testing.T) {
	r := newGen(174)
	for i, size := range [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 33, 9}, {50, 64, 48}, {2, 300, 130}, {130, 7, 65},
		{65, 1000, 33}} {
		m, k, n := size[0], size[1], size[2]
		for turn := range 4 {
			a, b := []int{m, k}, []int{k, n}
			if turn&1 != 0 {
				a = []int{k, m}
			}
			if turn&2 != 0 {
				b = []int{n, k}
			}
			attrs := []ir.Attr{ir.A("transA", turn&1), ir.A("transB", turn>>1)}
			x, w := given(r.floats(1, a...)), r.floats(1, b...)
			checkNode(t, "Gemm", 1, []operand{x, given(w)}, attrs...)
			if i%2 == 0 {
				attrs = append(attrs, ir.A("alpha", 0.5), ir.A("beta", -1.5))
			}
			checkNode(t, "Gemm", 1, []operand{x, given(w)}, attrs...)
			for _, c := range [][]int{{n}, {m, n}, {m, 1}, {1, n}, {1}, {}} {
				checkNode(t, "Gemm", 1, []operand{x, given(w), given(r.floats(1, c...))}, attrs...)
				checkNode(t, "Gemm", 1, []operand{x, fixed(w), given(r.floats(1, c...))}, attrs...)
				if t.Failed() {
					t.Fatal(fmt.Sprint(size, turn, c))
				}
			}
		}
	}
}
