package samples

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// previewSamples returns samples for the operators of ai.onnx.preview.
func previewSamples(o *ir.Op) []opstest.Sample {
	if o.Name != "FlexAttention" {
		return nil
	}
	// for score_mod and prob_mod
	changing := func(name string, f func(b *ir.Builder, x *ir.Value) *ir.Value) *ir.Graph {
		return graphOf(func(b *ir.Builder) {
			b.Output(name+"_y", f(b, b.Input(name+"_x", ir.Tensor(tensor.Float32, "B", "H", "S", "T"))))
		})
	}
	limit := changing("limit", func(b *ir.Builder, x *ir.Value) *ir.Value {
		return op(b, "Mul", op(b, "Tanh", x), b.Const("limit_c", tensor.Scalar(float32(2))))
	})
	mask := changing("mask", func(b *ir.Builder, x *ir.Value) *ir.Value { // a branch that captures a value of the graph
		y := op(b, "Mul", x, x)
		branch := func(name, with string) *ir.Graph {
			s := b.Sub(name)
			s.Output("", op(s, with, y, x))
			return s.Graph()
		}
		positive := op(b, "Greater", op(b, "Size", x), b.Const("mask_c", tensor.Scalar(int64(0))))
		return b.Op("", "If", []*ir.Value{positive}, ir.A("then_branch", branch("then", "Sub")),
			ir.A("else_branch", branch("else", "Add")))
	})
	q, k, v := normal(2, 4, 3, 5), normal(2, 2, 6, 5), normal(2, 2, 6, 7)
	return list{of(q, k, v), of(q, k, v).With(ir.A("scale", 0.3), ir.A("score_mod", limit), ir.A("prob_mod", mask)),
		of(normal(1, 2, 3, 4), normal(1, 2, 1, 4), normal(1, 2, 1, 4)).With(ir.A("prob_mod", limit))}
}
