package models_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// TestEncoders checks operators that look up categories, and the one that puts features beside each other.
func TestEncoders(t *testing.T) {
	r := NewGen(171)
	for _, n := range []int{0, 1, 7, 300} {
		numbers, small, exact := make([]int64, n), make([]float32, n), make([]float64, n)
		whole, text := make([]int32, n), make([]string, n)
		for i := range n {
			numbers[i] = int64(r.IntN(40)) - 5
			small[i], exact[i], whole[i] = float32(numbers[i]), float64(numbers[i])+0.5, int32(numbers[i])
			text[i] = fmt.Sprint("c", numbers[i])
			switch r.IntN(9) {
			case 0:
				small[i] = float32(math.NaN())
			case 1:
				small[i], numbers[i] = small[i]+0.25, math.MinInt64
			case 2:
				small[i] = float32(math.Copysign(0, -1))
			}
		}
		elements := []Operand{Given(tensor.FromSlice(numbers, n)), Given(tensor.FromSlice(whole, n, 1)),
			Given(tensor.FromSlice(small, 1, n)), Given(tensor.FromSlice(exact, n)), Given(tensor.FromStrings(text, n, 1))}
		for _, keys := range [][]int64{{3}, {0, 1, 2, 3, 4, 3, 2}, {7, -1e12, 5, 1e15, 0}, r.Keys(31)} {
			names := make([]string, len(keys))
			for i, k := range keys {
				names[i] = fmt.Sprint("c", k)
			}
			for i, x := range elements {
				if i == 2 && n > 0 { // of NaN, the number that a conversion gives depends on the machine
					x = Given(tensor.FromSlice(append([]float32{1.75, -2.5}, float32(n)), 3))
				}
				on.Same(t, "ai.onnx.ml.OneHotEncoder", 1, []Operand{x}, ir.A("cats_int64s", keys), ir.A("cats_strings", names))
			}
			floats := make([]float64, len(keys))
			for i, k := range keys {
				floats[i] = float64(float32(k))
			}
			broken := append([]float64{math.NaN(), 0.25}, floats[:len(floats)-min(2, len(floats))]...)
			with := append([]float64{math.NaN()}, floats[1:]...)
			for _, values := range []ir.Attr{ir.A("values_strings", names), ir.A("values_int64s", keys), ir.A("values_floats", floats)} {
				on.Same(t, "ai.onnx.ml.LabelEncoder", 1, elements[:1], ir.A("keys_int64s", keys), values)
				on.Same(t, "ai.onnx.ml.LabelEncoder", 1, elements[4:], ir.A("keys_strings", names), values)
				for _, k := range [][]float64{floats, with, broken} {
					if len(k) == len(keys) {
						on.Same(t, "ai.onnx.ml.LabelEncoder", 1, elements[2:3], ir.A("keys_floats", k), values)
					}
				}
			}
		}
		if n == 0 {
			continue
		}
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64} {
			parts := []Operand{Given(r.Typed(d, n, 3)), Given(r.Typed(d, n, 5)), Given(r.Typed(d, n, 1)), Given(r.Typed(d, n, 2))}
			on.Same(t, "ai.onnx.ml.FeatureVectorizer", 1, parts)
			on.Same(t, "ai.onnx.ml.FeatureVectorizer", 1, parts, ir.A("inputdimensions", []int64{2, 7, 0, 2}))
			on.Same(t, "ai.onnx.ml.FeatureVectorizer", 1, []Operand{Given(r.Typed(d, n))})
		}
	}
}
