package integers_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestQuantizeWords(t *testing.T) {
	r := NewGen(25)
	x := With(With(r.Floats(2, 3, 5, 7), 4, math.NaN()), 9, math.Inf(1))
	for _, zero := range []*tensor.Tensor{tensor.Scalar(int16(-300)), tensor.Scalar(uint16(40000)),
		tensor.Scalar(int8(-3)), tensor.Scalar(uint8(128))} {
		on.Same(t, "QuantizeLinear", 1, []Operand{Given(x), Fixed(tensor.Scalar(float32(1e-4))), Fixed(zero)})
	}
	words := tensor.FromSlice([]uint16{0, 1, 40000, 65535}, 4)
	on.Same(t, "DequantizeLinear", 1, []Operand{Given(words), Fixed(tensor.Scalar(float32(1e-4))),
		Fixed(tensor.Scalar(uint16(40000)))})
	on.Same(t, "DequantizeLinear", 1, []Operand{Given(r.Bytes(tensor.Int8, 3, 5, 40)), Fixed(r.Scales(0.1, 5)),
		Fixed(r.Bytes(tensor.Int8, 5))}, ir.A("axis", 1))
}

func TestQuantize(t *testing.T) {
	r := NewGen(15)
	x := With(With(r.Floats(2, 3, 5, 7), 4, math.NaN()), 9, math.Inf(1))
	tensor.Data[float32](x)[0] = 0.375 // a tie
	one, per := Fixed(tensor.Scalar(float32(0.25))), Fixed(tensor.FromSlice([]float32{0.5, 0.1, 0.02, 1, 3}, 5))
	on.Node(t, "QuantizeLinear", 1, []Operand{Given(x), one})
	on.Node(t, "QuantizeLinear", 1, []Operand{Given(x), one, Fixed(tensor.Scalar(int8(-3)))})
	on.Node(t, "QuantizeLinear", 1, []Operand{Given(x), per, Fixed(tensor.FromSlice([]uint8{0, 3, 128, 255, 9}, 5))})
	bytes, wide := tensor.New(tensor.Uint8, 3, 5, 7), tensor.New(tensor.Int32, 3, 5, 40)
	for i := range tensor.Data[uint8](bytes) {
		tensor.Data[uint8](bytes)[i] = uint8(r.IntN(256))
	}
	for i := range tensor.Data[int32](wide) {
		tensor.Data[int32](wide)[i] = int32(r.IntN(1 << 30))
	}
	on.Node(t, "DequantizeLinear", 1, []Operand{Given(bytes), one, Fixed(tensor.Scalar(uint8(128)))})
	on.Node(t, "DequantizeLinear", 1, []Operand{Given(bytes), per}, ir.A("axis", -2))
	on.Node(t, "DequantizeLinear", 1, []Operand{Given(wide), one})
	on.Node(t, "DequantizeLinear", 1, []Operand{Given(tensor.FromSlice([]int8{-128, 0, 127}, 3)), one})
}
