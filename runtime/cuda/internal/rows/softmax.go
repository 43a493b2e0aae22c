package rows

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "Softmax", Takes: float32s(1), Build: softmax(false)},
		record.Record{Op: "LogSoftmax", Takes: float32s(1), Build: softmax(true)},
	)
}

func softmax(logarithm bool) func(b *record.Builder, s *lowering.Step) bool {
	return func(b *record.Builder, s *lowering.Step) bool {
		shape := b.Binding.ShapeOf(s, 0)
		axis, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(shape))
		if err != nil {
			return false
		}
		outer, n, inner := record.Around(shape, axis)
		if outer == 0 || n == 0 || inner == 0 {
			return true
		}
		y, x := b.Buffer(s.Out[0]), b.Buffer(s.In[0])
		if inner > 1 {
			call, ok := kernel.SoftmaxColumns(y, x, outer, n, inner, logarithm)
			b.Launch(call)
			return ok
		}
		if outer > kernel.MaxRows || n > kernel.MaxRows {
			return false
		}
		b.Launch(kernel.SoftmaxRows(y, x, outer, n, logarithm))
		return true
	}
}
