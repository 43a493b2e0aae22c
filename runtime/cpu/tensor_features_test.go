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

func TestSupportVectors(t *testing.T) {
	r := newGen(153)
	transforms := []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"}
	for i, rows := range []int{1, 2, 7, 33, 129, 0} {
		for j, features := range []int{1, 3, 20, 65} {
			for k, kernel := range []string{"LINEAR", "POLY", "POLY", "RBF", "SIGMOID"} {
				x := given(r.floats(1, rows, features))
				size := 1 / math.Sqrt(float64(features))
				params := []float64{size * size / 4, 0.5, float64(1 + k)}
				if kernel == "POLY" && k == 2 { // no integer, of numbers above zero
					params = []float64{size * size / 64, 4, 2.5}
				}
				attrs := func(count, rows, targets int, more ...ir.Attr) []ir.Attr {
					coefficients := r.column(count * rows)
					for i := range coefficients {
						coefficients[i] /= 4 * float64(count)
					}
					rho := r.column(targets)
					for i := range rho { // so that subtracted numbers are not much larger than the result
						rho[i] += math.Copysign(3, rho[i])
					}
					return append(more, ir.A("kernel_type", kernel), ir.A("kernel_params", params),
						ir.A("support_vectors", r.column(count*features)), ir.A("coefficients", coefficients),
						ir.A("rho", rho), ir.A("post_transform", transforms[(i+j+k)%len(transforms)]))
				}
				for _, count := range []int{1, 17, 600} {
					if count == 600 && rows > 33 {
						continue
					}
					checkNode(t, "ai.onnx.ml.SVMRegressor", 1, []operand{x},
						append(attrs(count, 1, 1), ir.A("n_supports", count), ir.A("one_class", i%2))...)
				}
				for _, classes := range []int{2, 3, 18} {
					counts, total := make([]int64, classes), 0
					labels, text := make([]int64, classes), make([]string, classes)
					for c := range counts {
						counts[c] = int64((c + j) % 4 * 5)
						labels[c], text[c] = int64(7-c), fmt.Sprint("class ", c)
						total += int(counts[c])
					}
					if total == 0 {
						counts[0], total = 1, 1
					}
					pairs := classes * (classes - 1) / 2
					list := attrs(total, classes-1, pairs, ir.A("vectors_per_class", counts))
					if i%2 == 1 {
						list = append(list, ir.A("classlabels_strings", text))
					} else {
						list = append(list, ir.A("classlabels_ints", labels))
					}
					if k%2 == 1 {
						list = append(list, ir.A("prob_a", r.column(pairs)), ir.A("prob_b", r.column(pairs)))
					}
					checkNode(t, "ai.onnx.ml.SVMClassifier", 2, []operand{x}, list...)
				}
				if k > 0 {
					continue
				}
				checkNode(t, "ai.onnx.ml.SVMRegressor", 1, []operand{x}, ir.A("coefficients", r.column(features)),
					ir.A("rho", r.column(1)))
				checkNode(t, "ai.onnx.ml.SVMClassifier", 2, []operand{x}, ir.A("coefficients", r.column(3*features)),
					ir.A("rho", r.column(1)), ir.A("classlabels_ints", []int64{4, 2, 3}))
			}
		}
	}
}
