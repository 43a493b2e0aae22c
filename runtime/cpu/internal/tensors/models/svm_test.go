package models_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestSupportVectors(t *testing.T) {
	r := NewGen(153)
	transforms := []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"}
	for i, rows := range []int{1, 2, 7, 33, 129, 0} {
		for j, features := range []int{1, 3, 20, 65} {
			for k, kernel := range []string{"LINEAR", "POLY", "POLY", "RBF", "SIGMOID"} {
				x := Given(r.Floats(1, rows, features))
				size := 1 / math.Sqrt(float64(features))
				params := []float64{size * size / 4, 0.5, float64(1 + k)}
				if kernel == "POLY" && k == 2 { // no integer, of numbers above zero
					params = []float64{size * size / 64, 4, 2.5}
				}
				attrs := func(count, rows, targets int, more ...ir.Attr) []ir.Attr {
					coefficients := r.Column(count * rows)
					for i := range coefficients {
						coefficients[i] /= 4 * float64(count)
					}
					rho := r.Column(targets)
					for i := range rho { // so that subtracted numbers are not much larger than the result
						rho[i] += math.Copysign(3, rho[i])
					}
					return append(more, ir.A("kernel_type", kernel), ir.A("kernel_params", params),
						ir.A("support_vectors", r.Column(count*features)), ir.A("coefficients", coefficients),
						ir.A("rho", rho), ir.A("post_transform", transforms[(i+j+k)%len(transforms)]))
				}
				for _, count := range []int{1, 17, 600} {
					if count == 600 && rows > 33 {
						continue
					}
					on.Node(t, "ai.onnx.ml.SVMRegressor", 1, []Operand{x},
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
						list = append(list, ir.A("prob_a", r.Column(pairs)), ir.A("prob_b", r.Column(pairs)))
					}
					on.Node(t, "ai.onnx.ml.SVMClassifier", 2, []Operand{x}, list...)
				}
				if k > 0 {
					continue
				}
				on.Node(t, "ai.onnx.ml.SVMRegressor", 1, []Operand{x}, ir.A("coefficients", r.Column(features)),
					ir.A("rho", r.Column(1)))
				on.Node(t, "ai.onnx.ml.SVMClassifier", 2, []Operand{x}, ir.A("coefficients", r.Column(3*features)),
					ir.A("rho", r.Column(1)), ir.A("classlabels_ints", []int64{4, 2, 3}))
			}
		}
	}
}
