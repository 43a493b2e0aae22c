package models_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestFeatures(t *testing.T) {
	r := NewGen(152)
	samples := func(d tensor.DType, shape ...int) Operand {
		m := &treeMaker{Gen: r}
		return Given(m.samples(d, shape...))
	}
	for _, shape := range [][]int{{1, 1}, {1, 20}, {7, 3}, {1000, 33}, {5}, {0, 4}, {2, 40000}} {
		cols := shape[len(shape)-1]
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64} {
			for _, n := range []int{1, cols} {
				on.Node(t, "ai.onnx.ml.Scaler", 1, []Operand{samples(d, shape...)}, ir.A("offset", r.Column(n)),
					ir.A("scale", r.Column(1)))
				on.Node(t, "ai.onnx.ml.Scaler", 1, []Operand{samples(d, shape...)}, ir.A("scale", r.Column(n)))
				switch d {
				case tensor.Float32, tensor.Float64:
					for _, old := range []float64{0, 0.5, math.NaN()} {
						on.Same(t, "ai.onnx.ml.Imputer", 1, []Operand{samples(d, shape...)},
							ir.A("imputed_value_floats", r.Column(n)), ir.A("replaced_value_float", old))
					}
				case tensor.Int64:
					fill := make([]int64, n)
					for i := range fill {
						fill[i] = int64(i) + 5
					}
					on.Same(t, "ai.onnx.ml.Imputer", 1, []Operand{samples(d, shape...)},
						ir.A("imputed_value_int64s", fill), ir.A("replaced_value_int64", -1))
				}
			}
			for _, norm := range []string{"MAX", "L1", "L2"} {
				on.Node(t, "ai.onnx.ml.Normalizer", 1, []Operand{samples(d, shape...)}, ir.A("norm", norm))
				if d == tensor.Float32 {
					on.Node(t, "ai.onnx.ml.Normalizer", 1, []Operand{Given(r.Floats(1, shape...))}, ir.A("norm", norm))
				}
			}
			index := make([]int64, 9)
			for i := range index {
				index[i] = int64(r.IntN(cols))
			}
			at := Given(tensor.FromSlice(index, 1, len(index)))
			on.Same(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, []Operand{samples(d, shape...), at})
		}
	}
}
