package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// column returns n random numbers.
func (r gen) column(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(float32(r.NormFloat64()))
	}
	return v
}

func TestLinearModels(t *testing.T) {
	r := newGen(151)
	transforms := []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}
	for i, rows := range []int{1, 2, 7, 127, 129, 400, 0} {
		for j, features := range []int{1, 3, 20, 65} {
			for k, targets := range []int{1, 2, 3, 16, 17, 33} {
				kind := transforms[(i+j+k)%len(transforms)]
				x := given(r.floats(1, rows, features))
				coefficients := r.column(targets * features)
				if kind == "PROBIT" { // of numbers from 0 to 1
					v := tensor.Data[float32](x.data)
					for i := range v {
						v[i] = float32(r.Float64()) / float32(features)
					}
					for i := range coefficients {
						coefficients[i] = math.Abs(math.Mod(coefficients[i], 1))
					}
				}
				attrs := []ir.Attr{ir.A("coefficients", coefficients), ir.A("post_transform", kind)}
				regressor := append(attrs, ir.A("targets", targets))
				if k%2 == 0 && kind != "PROBIT" {
					attrs = append(attrs, ir.A("intercepts", r.column(targets)))
					regressor = append(regressor, attrs[2])
				}
				checkNode(t, "ai.onnx.ml.LinearRegressor", 1, []operand{x}, regressor...)
				labels, text := []int64{}, []string{}
				for i := range max(targets, 1+(i+j)%2) {
					labels, text = append(labels, int64(7-i)), append(text, fmt.Sprint("class ", i))
				}
				if i%3 == 1 {
					attrs = append(attrs, ir.A("classlabels_strings", text))
				} else {
					attrs = append(attrs, ir.A("classlabels_ints", labels))
				}
				if len(labels) == 1 && kind == "SOFTMAX_ZERO" {
					continue
				}
				checkNode(t, "ai.onnx.ml.LinearClassifier", 2, []operand{x}, attrs...)
			}
		}
	}
	checkNode(t, "ai.onnx.ml.LinearRegressor", 1, []operand{given(r.floats(1, 5))}, ir.A("coefficients", r.column(5)))
}

func TestFeatures(t *testing.T) {
	r := newGen(152)
	samples := func(d tensor.DType, shape ...int) operand {
		m := &treeMaker{gen: r}
		return given(m.samples(d, shape...))
	}
	for _, shape := range [][]int{{1, 1}, {1, 20}, {7, 3}, {1000, 33}, {5}, {0, 4}, {2, 40000}} {
		cols := shape[len(shape)-1]
		for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64} {
			for _, n := range []int{1, cols} {
				checkNode(t, "ai.onnx.ml.Scaler", 1, []operand{samples(d, shape...)}, ir.A("offset", r.column(n)),
					ir.A("scale", r.column(1)))
				checkNode(t, "ai.onnx.ml.Scaler", 1, []operand{samples(d, shape...)}, ir.A("scale", r.column(n)))
				switch d {
				case tensor.Float32, tensor.Float64:
					for _, old := range []float64{0, 0.5, math.NaN()} {
						sameNode(t, "ai.onnx.ml.Imputer", 1, []operand{samples(d, shape...)},
							ir.A("imputed_value_floats", r.column(n)), ir.A("replaced_value_float", old))
					}
				case tensor.Int64:
					fill := make([]int64, n)
					for i := range fill {
						fill[i] = int64(i) + 5
					}
					sameNode(t, "ai.onnx.ml.Imputer", 1, []operand{samples(d, shape...)},
						ir.A("imputed_value_int64s", fill), ir.A("replaced_value_int64", -1))
				}
			}
			for _, norm := range []string{"MAX", "L1", "L2"} {
				checkNode(t, "ai.onnx.ml.Normalizer", 1, []operand{samples(d, shape...)}, ir.A("norm", norm))
				if d == tensor.Float32 {
					checkNode(t, "ai.onnx.ml.Normalizer", 1, []operand{given(r.floats(1, shape...))}, ir.A("norm", norm))
				}
			}
			index := make([]int64, 9)
			for i := range index {
				index[i] = int64(r.IntN(cols))
			}
			at := given(tensor.FromSlice(index, 1, len(index)))
			sameNode(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, []operand{samples(d, shape...), at})
		}
	}
}
