package models_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestLinearModels(t *testing.T) {
	r := NewGen(151)
	transforms := []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}
	for i, rows := range []int{1, 2, 7, 127, 129, 400, 0} {
		for j, features := range []int{1, 3, 20, 65} {
			for k, targets := range []int{1, 2, 3, 16, 17, 33} {
				kind := transforms[(i+j+k)%len(transforms)]
				x := Given(r.Floats(1, rows, features))
				coefficients := r.Column(targets * features)
				if kind == "PROBIT" { // of numbers from 0 to 1
					v := tensor.Data[float32](x.Data)
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
					attrs = append(attrs, ir.A("intercepts", r.Column(targets)))
					regressor = append(regressor, attrs[2])
				}
				on.Node(t, "ai.onnx.ml.LinearRegressor", 1, []Operand{x}, regressor...)
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
				on.Node(t, "ai.onnx.ml.LinearClassifier", 2, []Operand{x}, attrs...)
			}
		}
	}
	on.Node(t, "ai.onnx.ml.LinearRegressor", 1, []Operand{Given(r.Floats(1, 5))}, ir.A("coefficients", r.Column(5)))
}
