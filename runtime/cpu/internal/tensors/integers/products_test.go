package integers_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
	"github.com/essmc/essmc/runtime/ref"
)

// integerShapes are shapes of two matrices.
var integerShapes = [][2][]int{{{3, 5}, {5, 7}}, {{1, 40}, {40, 33}}, {{2, 3, 7, 16}, {2, 3, 16, 18}},
	{{2, 1, 4, 5}, {3, 5, 1}}, {{2, 9, 31}, {31, 64}}, {{130, 96}, {96, 130}}, {{2, 2, 70, 9}, {2, 2, 9, 300}},
	{{109, 257}, {257, 176}}}

func TestMatMulInteger(t *testing.T) {
	r := NewGen(21)
	for _, types := range ByteTypes {
		for _, c := range integerShapes {
			a, b := r.Bytes(types[0], c[0]...), r.Bytes(types[1], c[1]...)
			n := c[1][len(c[1])-1]
			zeroA, zeroB := r.Bytes(types[0]), r.Bytes(types[1])
			on.Same(t, "MatMulInteger", 1, []Operand{Given(a), Given(b)})
			on.Same(t, "MatMulInteger", 1, []Operand{Given(a), Given(b), Given(zeroA), Given(zeroB)})
			if len(c[1]) == 2 {
				on.Same(t, "MatMulInteger", 1, []Operand{Given(a), Fixed(b), Given(zeroA), Fixed(zeroB)})
				on.Same(t, "MatMulInteger", 1, []Operand{Given(a), Fixed(b), {}, Fixed(r.Bytes(types[1], n))})
			}
		}
	}
	// Cases without a kernel are computed step by step, or evaluated; the result is the same.
	for _, in := range [][]Operand{
		{Given(r.Bytes(tensor.Uint8, 3, 5)), Given(r.Bytes(tensor.Uint8, 5, 2)), Fixed(r.Bytes(tensor.Uint8, 3))},
		{Given(r.Bytes(tensor.Uint8, 5)), Given(r.Bytes(tensor.Int8, 5, 2))},
		{Given(r.Bytes(tensor.Uint8, 3, 0)), Given(r.Bytes(tensor.Int8, 0, 2))},
	} {
		on.SameAnyhow(t, "MatMulInteger", 1, in)
	}
}

func TestMatMulIntegerToFloat(t *testing.T) {
	const op = "com.microsoft.MatMulIntegerToFloat"
	r := NewGen(24)
	for _, types := range ByteTypes {
		for _, c := range integerShapes {
			a, b := Given(r.Bytes(types[0], c[0]...)), r.Bytes(types[1], c[1]...)
			n := c[1][len(c[1])-1]
			zeroA, zeroB := Given(r.Bytes(types[0])), r.Bytes(types[1])
			scale, scales := r.Scales(0.01), r.Scales(0.1, n)
			on.Same(t, op, 1, []Operand{a, Given(b), Given(scale), Given(scale)})
			on.Same(t, op, 1, []Operand{a, Given(b), Given(scale), Fixed(scales), zeroA, Given(zeroB)})
			if len(c[1]) == 2 {
				on.Same(t, op, 1, []Operand{a, Fixed(b), Given(scale), Fixed(scale), zeroA, Fixed(zeroB)})
				on.Same(t, op, 1, []Operand{a, Fixed(b), Given(scale), Given(scales), {}, Fixed(r.Bytes(types[1], n))})
			}
			on.SameAnyhow(t, op, 1, []Operand{a, Given(b), Given(scale), Fixed(scales), zeroA, Given(zeroB), Fixed(r.Scales(1, n))})
		}
	}
}

func TestQLinearMatMul(t *testing.T) {
	r := NewGen(22)
	for _, types := range ByteTypes {
		for _, c := range integerShapes {
			a, b := Given(r.Bytes(types[0], c[0]...)), Given(r.Bytes(types[1], c[1]...))
			n := c[1][len(c[1])-1]
			zeroA, zeroB, zeroY := Fixed(r.Bytes(types[0])), Fixed(r.Bytes(types[1])), Fixed(r.Bytes(types[0]))
			one, y := Fixed(r.Scales(0.01)), Fixed(r.Scales(0.3))
			on.Same(t, "QLinearMatMul", 1, []Operand{a, one, zeroA, b, Fixed(r.Scales(0.01)), zeroB, y, zeroY})
			if len(c[1]) == 2 {
				b.Const = true
				on.Same(t, "QLinearMatMul", 1,
					[]Operand{a, one, zeroA, b, Fixed(r.Scales(0.01, n)), Fixed(r.Bytes(types[1], n)), y, zeroY})
			}
		}
	}
}

// TestQuantizedTies checks how sums become bytes, where a result is near the middle of two: in float32, by one factor, to
// even before the zero point is added (package std, requantized).
func TestQuantizedTies(t *testing.T) {
	const n = 511
	sums := tensor.New(tensor.Int8, 1, 1) // one row, one column: products with weights from -255 to 255
	tensor.Data[int8](sums)[0] = 1
	weights, filters := tensor.New(tensor.Int8, 1, n), tensor.New(tensor.Int8, n, 1, 1)
	for i := range n {
		tensor.Data[int8](weights)[i] = int8(i%256 - 128)
		tensor.Data[int8](filters)[i] = int8(i%256 - 128)
	}
	x := tensor.FromSlice([]int8{1}, 1, 1, 1)
	zero := Fixed(tensor.FromSlice([]int8{0}, 1))
	for _, c := range [][3]float32{{0.5, 0.5, 0.5}, {0.1, 0.1, 0.02}, {0.05, 0.3, 0.03}, {0.02, 0.03, 0.0012}, {1, 1, 2},
		{0.7, 0.3, 0.42}} {
		for _, to := range []uint8{0, 100, 101} {
			one := func(v float32) Operand { return Fixed(tensor.FromSlice([]float32{v}, 1)) }
			yz := Fixed(tensor.FromSlice([]uint8{to}, 1))
			factor := float32(c[0]*c[1]) / c[2]
			want := make([]byte, n)
			for i := range want {
				v := math.RoundToEven(float64(float32(i%256-128)*factor)) + float64(to)
				want[i] = byte(min(max(v, 0), 255))
			}
			scaled := func(x, w Operand) []Operand {
				return []Operand{x, one(c[0]), zero, w, one(c[1]), zero, one(c[2]), yz}
			}
			for op, in := range map[string][]Operand{
				"QLinearMatMul": scaled(Given(sums), Fixed(weights)), "QLinearConv": scaled(Given(x), Fixed(filters)),
			} {
				on.Same(t, op, 1, in)
				g, feed := NodeGraph(t, op, 1, in)
				for _, got := range Run(t, g, runtime.Options{Backend: ref.New()}, feed) {
					for i, b := range got.(*tensor.Tensor).Bytes() {
						if b != want[i] {
							t.Fatalf("%s: %d by scales %v and zero point %d gives %d, expected %d", op, i%256-128, c, to, b,
								want[i])
						}
					}
				}
			}
		}
	}
}
