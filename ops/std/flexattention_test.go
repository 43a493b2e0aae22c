package std

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
)

// changing is a graph of one input and one output, for score_mod and prob_mod.
func changing(t *testing.T, f func(b *ir.Builder, x *ir.Value) *ir.Value) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("change", ops.Default, ops.Opsets())
	b.Output("", f(b, b.Input("x", ir.Tensor(tensor.Float32, "B", "H", "S", "T"))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The operators of ai.onnx.preview pass what those of ai.onnx do.
func TestFlexAttention(t *testing.T) {
	cap := changing(t, func(b *ir.Builder, x *ir.Value) *ir.Value {
		return op(b, "Mul", op(b, "Tanh", x), scalar(b, x, 2))
	})
	mask := changing(t, func(b *ir.Builder, x *ir.Value) *ir.Value { // a branch that reads what the graph computes
		y := op(b, "Mul", x, x)
		branch := func(name, with string) *ir.Graph {
			s := b.Sub(name)
			s.Output("", op(s, with, y, x))
			return s.Graph()
		}
		positive := op(b, "Greater", op(b, "Size", x), b.Const("c", tensor.Scalar(int64(0))))
		return attr(b, "If", []*ir.Value{positive}, ir.A("then_branch", branch("then", "Sub")), ir.A("else_branch", branch("else", "Add")))
	})
	own := opstest.Suite{Domain: "ai.onnx.preview", Samples: func(*ir.Op) []opstest.Sample {
		q, k, v := normal(2, 4, 3, 5), normal(2, 2, 6, 5), normal(2, 2, 6, 7)
		var out []opstest.Sample
		for _, s := range []sample{of(q, k, v), of(q, k, v).with(ir.A("scale", 0.3), ir.A("score_mod", cap), ir.A("prob_mod", mask)), of(normal(1, 2, 3, 4), normal(1, 2, 1, 4), normal(1, 2, 1, 4)).with(ir.A("prob_mod", cap))} {
			out = append(out, s.shared())
		}
		return out
	}}
	t.Run("infer", own.Infer)
	t.Run("body", own.Body)
	t.Run("wide", own.Wide)
	t.Run("bad inputs", own.BadInputs)
}
