package std

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// f32s returns a float32 tensor.
func f32s(shape []int, v ...float32) tensor.Datum { return tensor.FromSlice(v, shape...) }

// TestEarlier lists answers of earlier versions according to the standard of their time.
func TestEarlier(t *testing.T) {
	x23 := f32s([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	ints := func(name string, v ...int64) ir.Attr { return ir.A(name, v) }
	tests := []struct {
		name    string
		version int
		s       sample
		want    []tensor.Datum
	}{
		{"Add", 6, of(x23, f32s([]int{2}, 10, 20)).With(ir.A("broadcast", 1), ir.A("axis", 0)),
			[]tensor.Datum{f32s([]int{2, 3}, 11, 12, 13, 24, 25, 26)}},
		{"Add", 6, of(x23, f32s([]int{3}, 10, 20, 30)).With(ir.A("broadcast", 1)),
			[]tensor.Datum{f32s([]int{2, 3}, 11, 22, 33, 14, 25, 36)}},
		{"Mul", 1, of(x23, f32s([]int{2, 1}, 10, 20)).With(ir.A("broadcast", 1), ir.A("axis", -2),
			ints("consumed_inputs", 0)), []tensor.Datum{f32s([]int{2, 3}, 10, 20, 30, 80, 100, 120)}},
		{"Greater", 1, of(x23, f32s([]int{2}, 1, 4)).With(ir.A("broadcast", 1), ir.A("axis", 0)),
			[]tensor.Datum{tensor.FromSlice([]bool{false, true, true, false, true, true}, 2, 3)}},
		{"Softmax", 11, of(f32s([]int{1, 2, 2}, 0, 0, 0, 0)),
			[]tensor.Datum{f32s([]int{1, 2, 2}, 0.25, 0.25, 0.25, 0.25)}},
		{"Softmax", 13, of(f32s([]int{1, 2, 2}, 0, 0, 0, 0)), []tensor.Datum{f32s([]int{1, 2, 2}, 0.5, 0.5, 0.5, 0.5)}},
		{"Hardmax", 1, of(f32s([]int{1, 2, 2}, 1, 3, 2, 0)), []tensor.Datum{f32s([]int{1, 2, 2}, 0, 1, 0, 0)}},
		{"Hardmax", 11, of(f32s([]int{2, 1, 2}, 1, 3, 2, 0)).With(ir.A("axis", 0)),
			[]tensor.Datum{f32s([]int{2, 1, 2}, 0, 1, 0, 0)}},
		{"Squeeze", 1, of(f32s([]int{1, 2, 1}, 1, 2)).With(ints("axes", 0)), []tensor.Datum{f32s([]int{2, 1}, 1, 2)}},
		{"Unsqueeze", 1, of(f32s([]int{2}, 1, 2)).With(ints("axes", 0, 2)), []tensor.Datum{f32s([]int{1, 2, 1}, 1, 2)}},
		{"ReduceSum", 11, of(x23).With(ints("axes", 0), ir.A("keepdims", 0)), []tensor.Datum{f32s([]int{3}, 5, 7, 9)}},
		{"ReduceMax", 12, of(x23).With(ints("axes", -1)), []tensor.Datum{f32s([]int{2, 1}, 3, 6)}},
		{"ReduceMean", 13, of(x23), []tensor.Datum{f32s([]int{1, 1}, 3.5)}},
		{"Slice", 1, of(x23).With(ints("axes", 1), ints("starts", -2), ints("ends", 1000)),
			[]tensor.Datum{f32s([]int{2, 2}, 2, 3, 5, 6)}},
		{"Slice", 1, of(x23).With(ints("starts", 1), ints("ends", 2)), []tensor.Datum{f32s([]int{1, 3}, 4, 5, 6)}},
		{"Pad", 1, of(f32s([]int{2}, 1, 2)).With(ints("paddings", 1, 2), ir.A("value", 9.0)),
			[]tensor.Datum{f32s([]int{5}, 9, 1, 2, 9, 9)}},
		{"Pad", 2, of(f32s([]int{3}, 1, 2, 3)).With(ints("pads", 2, 1), ir.A("mode", "reflect")),
			[]tensor.Datum{f32s([]int{6}, 3, 2, 1, 2, 3, 2)}},
		{"Clip", 6, of(x23).With(ir.A("min", 2.0), ir.A("max", 4.0)),
			[]tensor.Datum{f32s([]int{2, 3}, 2, 2, 3, 4, 4, 4)}},
		{"Clip", 1, of(f32s([]int{2}, -1, 1)).With(ir.A("min", 0.0)), []tensor.Datum{f32s([]int{2}, 0, 1)}},
		{"Split", 2, of(f32s([]int{4}, 1, 2, 3, 4)).With(ints("split", 1, 3)).Gives(2),
			[]tensor.Datum{f32s([]int{1}, 1), f32s([]int{3}, 2, 3, 4)}},
		{"Split", 13, of(f32s([]int{4}, 1, 2, 3, 4)).Gives(2),
			[]tensor.Datum{f32s([]int{2}, 1, 2), f32s([]int{2}, 3, 4)}},
		{"Split", 1, of(f32s([]int{3}, 1, 2, 3), f32s([]int{2}, 2, 1)).Gives(2),
			[]tensor.Datum{f32s([]int{2}, 1, 2), f32s([]int{1}, 3)}},
		{"TopK", 1, of(f32s([]int{3}, 1, 3, 2)).With(ir.A("k", 2)).Gives(2),
			[]tensor.Datum{f32s([]int{2}, 3, 2), vec(1, 2)}},
		{"TopK", 10, of(f32s([]int{3}, 1, 3, 2), vec(1)).Gives(2), []tensor.Datum{f32s([]int{1}, 3), vec(1)}},
		{"Tile", 1, of(x23, tensor.Scalar(float32(2)), tensor.Scalar(float32(1))),
			[]tensor.Datum{f32s([]int{2, 6}, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6)}},
		{"Concat", 1, of(x23, f32s([]int{2, 1}, 7, 8)), []tensor.Datum{f32s([]int{2, 4}, 1, 2, 3, 7, 4, 5, 6, 8)}},
		{"Cast", 1, of(f32s([]int{2}, 1.5, -2.5)).With(ir.A("to", "INT64")), []tensor.Datum{vec(1, -2)}},
		{"Cast", 9, of(words("3.5", "-INF")).With(ir.A("to", int(tensor.Float32))),
			[]tensor.Datum{f32s([]int{2}, 3.5, float32(math.Inf(-1)))}},
		{"Reshape", 1, of(x23).With(ints("shape", 3, -1)), []tensor.Datum{f32s([]int{3, 2}, 1, 2, 3, 4, 5, 6)}},
		{"Gemm", 6, of(f32s([]int{1, 2}, 1, 2), f32s([]int{2, 2}, 1, 0, 0, 1),
			f32s([]int{2}, 10, 20)).With(ir.A("broadcast", 1)), []tensor.Datum{f32s([]int{1, 2}, 11, 22)}},
		{"Scatter", 9, of(f32s([]int{3}, 1, 2, 3), vec(2, 0), f32s([]int{2}, 8, 9)),
			[]tensor.Datum{f32s([]int{3}, 9, 2, 8)}},
		{"Dropout", 7, of(f32s([]int{2}, 1, 2)).With(ir.A("ratio", 0.9)).Gives(2),
			[]tensor.Datum{f32s([]int{2}, 1, 2), tensor.FromSlice([]bool{true, true}, 2)}},
		{"Dropout", 6, of(f32s([]int{2}, 1, 2)).Gives(2), []tensor.Datum{f32s([]int{2}, 1, 2), f32s([]int{2}, 1, 1)}},
		// Two samples of one channel, 1 and 3: mean 2, variance 1, entering running statistics of 10 and 4.
		{"BatchNormalization", 9, of(f32s([]int{2, 1}, 1, 3), f32s([]int{1}, 2), f32s([]int{1}, 5), f32s([]int{1}, 10),
			f32s([]int{1}, 4)).With(ir.A("epsilon", 0.0), ir.A("momentum", 0.5)).Gives(5),
			[]tensor.Datum{f32s([]int{2, 1}, 3, 7), f32s([]int{1}, 6), f32s([]int{1}, 2.5), f32s([]int{1}, 2),
				f32s([]int{1}, 1)}},
		{"BatchNormalization", 7, of(f32s([]int{1, 1, 2}, 3, 3), f32s([]int{1, 2}, 1, 2), f32s([]int{1, 2}, 0, 0),
			f32s([]int{1, 2}, 1, 2), f32s([]int{1, 2}, 1, 4)).With(ir.A("epsilon", 0.0), ir.A("spatial", 0)),
			[]tensor.Datum{f32s([]int{1, 1, 2}, 2, 1)}},
		{"Scan", 8, of(vec(2, 1), f32s([]int{2}, 0, 10),
			f32s([]int{2, 3}, 1, 2, 3, 4, 5, 6)).With(ir.A("num_scan_inputs", 1),
			ir.A("body", graphOf(func(b *ir.Builder) {
				s, x := b.Input("s", ir.Tensor(tensor.Float32)), b.Input("x", ir.Tensor(tensor.Float32))
				b.Output("t", op(b, "Add", s, x))
				b.Output("y", op(b, "Mul", x, x))
			}))).Gives(2), []tensor.Datum{f32s([]int{2}, 3, 14), f32s([]int{2, 3}, 1, 4, 0, 16, 0, 0)}},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%d/%s-%d", i, tt.name, tt.version), func(t *testing.T) {
			o := ops.Default.Resolve("", tt.name, tt.version)
			if o == nil {
				t.Fatal("not in the registry")
			}
			got, err := eval(plainNode(t, o, tt.s), tt.s.In, false)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.want {
				if err := near(got[i], want, 1e-6, 1e-6); err != nil {
					t.Errorf("output %d: %v: %v", i, err, show(got[i].(*tensor.Tensor)))
				}
			}
		})
	}
}
