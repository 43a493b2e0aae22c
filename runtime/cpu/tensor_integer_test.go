package cpu

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors/integers"
	"github.com/essmc/essmc/runtime/ref"
)

// bytes returns random numbers of an element type of 8 bits, with the extremes among them.
func (r gen) bytes(d tensor.DType, shape ...int) *tensor.Tensor {
	t := tensor.New(d, shape...)
	b := t.Bytes()
	for i := range b {
		b[i] = [...]byte{0, 127, 128, 255, byte(r.IntN(256)), byte(r.IntN(256))}[r.IntN(6)]
	}
	return t
}

func (r gen) scales(least float64, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](t) {
		tensor.Data[float32](t)[i] = float32(least * (1 + r.Float64()))
	}
	return t
}

// byteTypes are pairs of element types.
var byteTypes = [][2]tensor.DType{{tensor.Uint8, tensor.Int8}, {tensor.Uint8, tensor.Uint8}, {tensor.Int8, tensor.Int8}}

// integerShapes are shapes of two matrices.
var integerShapes = [][2][]int{{{3, 5}, {5, 7}}, {{1, 40}, {40, 33}}, {{2, 3, 7, 16}, {2, 3, 16, 18}},
	{{2, 1, 4, 5}, {3, 5, 1}}, {{2, 9, 31}, {31, 64}}, {{130, 96}, {96, 130}}, {{2, 2, 70, 9}, {2, 2, 9, 300}},
	{{109, 257}, {257, 176}}}

func TestMatMulInteger(t *testing.T) {
	r := newGen(21)
	for _, types := range byteTypes {
		for _, c := range integerShapes {
			a, b := r.bytes(types[0], c[0]...), r.bytes(types[1], c[1]...)
			n := c[1][len(c[1])-1]
			zeroA, zeroB := r.bytes(types[0]), r.bytes(types[1])
			sameNode(t, "MatMulInteger", 1, []operand{given(a), given(b)})
			sameNode(t, "MatMulInteger", 1, []operand{given(a), given(b), given(zeroA), given(zeroB)})
			if len(c[1]) == 2 {
				sameNode(t, "MatMulInteger", 1, []operand{given(a), fixed(b), given(zeroA), fixed(zeroB)})
				sameNode(t, "MatMulInteger", 1, []operand{given(a), fixed(b), {}, fixed(r.bytes(types[1], n))})
			}
		}
	}
	// Cases without a kernel are computed step by step, or evaluated; the result is the same.
	for _, in := range [][]operand{
		{given(r.bytes(tensor.Uint8, 3, 5)), given(r.bytes(tensor.Uint8, 5, 2)), fixed(r.bytes(tensor.Uint8, 3))},
		{given(r.bytes(tensor.Uint8, 5)), given(r.bytes(tensor.Int8, 5, 2))},
		{given(r.bytes(tensor.Uint8, 3, 0)), given(r.bytes(tensor.Int8, 0, 2))},
	} {
		sameAnyhow(t, "MatMulInteger", 1, in)
	}
}

func TestMatMulIntegerToFloat(t *testing.T) {
	const op = "com.microsoft.MatMulIntegerToFloat"
	r := newGen(24)
	for _, types := range byteTypes {
		for _, c := range integerShapes {
			a, b := given(r.bytes(types[0], c[0]...)), r.bytes(types[1], c[1]...)
			n := c[1][len(c[1])-1]
			zeroA, zeroB := given(r.bytes(types[0])), r.bytes(types[1])
			scale, scales := r.scales(0.01), r.scales(0.1, n)
			sameNode(t, op, 1, []operand{a, given(b), given(scale), given(scale)})
			sameNode(t, op, 1, []operand{a, given(b), given(scale), fixed(scales), zeroA, given(zeroB)})
			if len(c[1]) == 2 {
				sameNode(t, op, 1, []operand{a, fixed(b), given(scale), fixed(scale), zeroA, fixed(zeroB)})
				sameNode(t, op, 1, []operand{a, fixed(b), given(scale), given(scales), {}, fixed(r.bytes(types[1], n))})
			}
			sameAnyhow(t, op, 1, []operand{a, given(b), given(scale), fixed(scales), zeroA, given(zeroB), fixed(r.scales(1, n))})
		}
	}
}

func TestQLinearMatMul(t *testing.T) {
	r := newGen(22)
	for _, types := range byteTypes {
		for _, c := range integerShapes {
			a, b := given(r.bytes(types[0], c[0]...)), given(r.bytes(types[1], c[1]...))
			n := c[1][len(c[1])-1]
			zeroA, zeroB, zeroY := fixed(r.bytes(types[0])), fixed(r.bytes(types[1])), fixed(r.bytes(types[0]))
			one, y := fixed(r.scales(0.01)), fixed(r.scales(0.3))
			sameNode(t, "QLinearMatMul", 1, []operand{a, one, zeroA, b, fixed(r.scales(0.01)), zeroB, y, zeroY})
			if len(c[1]) == 2 {
				b.konst = true
				sameNode(t, "QLinearMatMul", 1,
					[]operand{a, one, zeroA, b, fixed(r.scales(0.01, n)), fixed(r.bytes(types[1], n)), y, zeroY})
			}
		}
	}
}

// TestIntegerPair adds and multiplies operands that repeat in each way.
func TestIntegerPair(t *testing.T) {
	r := newGen(23)
	for _, c := range [][2][]int{{{3, 5}, {3, 5}}, {{2, 3, 40, 41}, {2, 3, 1, 1}}, {{2, 3, 40, 41}, {1, 3, 1, 1}},
		{{1, 4, 1, 1}, {1, 4, 5, 7}}, {{2, 3, 4}, {4}}, {{2, 3, 4}, {1}}, {{7}, {1, 2, 1, 1}}, {{2, 1, 1, 1}, {2, 3, 33, 35}},
		{{2, 3, 4}, {3, 1}}, {{5, 1}, {1, 6}}, {{}, {2, 50, 90}}, {{}, {}}, {{33, 70}, {70}}} {
		for _, types := range []tensor.DType{tensor.Uint8, tensor.Int8} {
			for _, op := range []string{"com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"} {
				in := []operand{given(r.bytes(types, c[0]...)), fixed(r.scales(0.01)), fixed(r.bytes(types)),
					given(r.bytes(types, c[1]...)), fixed(r.scales(0.02)), fixed(r.bytes(types)), fixed(r.scales(0.3)),
					fixed(r.bytes(types))}
				sameNode(t, op, 1, in)
			}
		}
	}
	// An axis of size 1 between others has no kernel.
	one, zero := fixed(r.scales(1)), fixed(r.bytes(tensor.Int8))
	sameAnyhow(t, "com.microsoft.QLinearAdd", 1, []operand{given(r.bytes(tensor.Int8, 2, 3, 4)), one, zero,
		given(r.bytes(tensor.Int8, 2, 1, 4)), one, zero, one, zero})
}

func TestByteTable(t *testing.T) {
	r := newGen(24)
	for _, types := range []tensor.DType{tensor.Uint8, tensor.Int8} {
		for _, shape := range [][]int{{}, {7}, {3, 5, 67}, {2, 1 << 15, 3}} {
			for _, op := range []string{"com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu"} {
				sameNode(t, op, 1, []operand{given(r.bytes(types, shape...)), fixed(r.scales(0.03)), fixed(r.bytes(types)),
					fixed(r.scales(0.01)), fixed(r.bytes(types))})
			}
			for _, to := range []tensor.DType{tensor.Uint8, tensor.Int8} {
				sameNode(t, "essm.ByteTable", 1, []operand{given(r.bytes(types, shape...)), fixed(r.bytes(to, 256))})
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
	zero := fixed(tensor.FromSlice([]int8{0}, 1))
	for _, c := range [][3]float32{{0.5, 0.5, 0.5}, {0.1, 0.1, 0.02}, {0.05, 0.3, 0.03}, {0.02, 0.03, 0.0012}, {1, 1, 2},
		{0.7, 0.3, 0.42}} {
		for _, to := range []uint8{0, 100, 101} {
			one := func(v float32) operand { return fixed(tensor.FromSlice([]float32{v}, 1)) }
			yz := fixed(tensor.FromSlice([]uint8{to}, 1))
			factor := float32(c[0]*c[1]) / c[2]
			want := make([]byte, n)
			for i := range want {
				v := math.RoundToEven(float64(float32(i%256-128)*factor)) + float64(to)
				want[i] = byte(min(max(v, 0), 255))
			}
			scaled := func(x, w operand) []operand {
				return []operand{x, one(c[0]), zero, w, one(c[1]), zero, one(c[2]), yz}
			}
			for op, in := range map[string][]operand{
				"QLinearMatMul": scaled(given(sums), fixed(weights)), "QLinearConv": scaled(given(x), fixed(filters)),
			} {
				sameNode(t, op, 1, in)
				g, feed := nodeGraph(t, op, 1, in)
				for _, got := range run(t, g, runtime.Options{Backend: ref.New()}, feed) {
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

func TestDynamicQuantizeLinear(t *testing.T) {
	r := newGen(24)
	for _, x := range []*tensor.Tensor{
		r.floats(1, 3, 5), r.floats(1e20, 2, 100, 91), r.floats(1e-30, 40), r.floats(1, 3, integers.DynamicPart),
		tensor.New(tensor.Float32, 7), with(r.floats(1, 9), 3, math.NaN()), with(r.floats(1, 90), 3, math.Inf(1)),
		with(r.floats(1e38, 90), 0, 3e38), r.floats(1, 0, 3),
		tensor.FromSlice([]float32{1, 2, 3}, 3), tensor.FromSlice([]float32{-1, -2, -3}, 3),
		tensor.FromSlice([]float32{1e-45, 0, 0}, 3),
	} {
		sameAnyhow(t, "DynamicQuantizeLinear", 3, []operand{given(x)})
	}
	sameNode(t, "DynamicQuantizeLinear", 3, []operand{given(r.floats(1, 3, 5))})
}

func TestQuantizeWords(t *testing.T) {
	r := newGen(25)
	x := with(with(r.floats(2, 3, 5, 7), 4, math.NaN()), 9, math.Inf(1))
	for _, zero := range []*tensor.Tensor{tensor.Scalar(int16(-300)), tensor.Scalar(uint16(40000)),
		tensor.Scalar(int8(-3)), tensor.Scalar(uint8(128))} {
		sameNode(t, "QuantizeLinear", 1, []operand{given(x), fixed(tensor.Scalar(float32(1e-4))), fixed(zero)})
	}
	words := tensor.FromSlice([]uint16{0, 1, 40000, 65535}, 4)
	sameNode(t, "DequantizeLinear", 1, []operand{given(words), fixed(tensor.Scalar(float32(1e-4))),
		fixed(tensor.Scalar(uint16(40000)))})
	sameNode(t, "DequantizeLinear", 1, []operand{given(r.bytes(tensor.Int8, 3, 5, 40)), fixed(r.scales(0.1, 5)),
		fixed(r.bytes(tensor.Int8, 5))}, ir.A("axis", 1))
}

func TestIntegerBinary(t *testing.T) {
	r := newGen(27)
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
			sameNode(t, op, 1, []operand{given(a), given(b)})
			sameNode(t, op, 1, []operand{given(c), given(d)})
		}
		sameAnyhow(t, "Div", 1, []operand{given(a), given(b)})
	}
}
