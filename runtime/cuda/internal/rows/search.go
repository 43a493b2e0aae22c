package rows

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "ArgMax", Takes: float32s(1), Build: search(kernel.Search{}, 0)},
		record.Record{Op: "ArgMin", Takes: float32s(1), Build: search(kernel.Search{Least: true}, 0)},
		record.Record{Op: "Hardmax", Takes: float32s(1), Build: search(kernel.Search{Hard: true}, -1)},
	)
}

// search searches along attribute axis, whose default is along.
func search(f kernel.Search, along int64) func(b *record.Builder, s *lowering.Step) bool {
	return func(b *record.Builder, s *lowering.Step) bool {
		shape := b.Binding.ShapeOf(s, 0)
		axis, err := ops.Axis(s.Node.Attrs.Int("axis", along), len(shape))
		if err != nil {
			return false
		}
		outer, n, inner := record.Around(shape, axis)
		switch {
		case b.Bytes(s.Out[0]) == 0:
			return true
		case n == 0:
			return false // an error that the operator's evaluation reports
		}
		f := f
		f.Last = !f.Hard && s.Node.Attrs.Bool("select_last_index", false)
		y := b.Buffer(s.Out[0])
		if f.Hard {
			b.Fill(y, 0, b.Bytes(s.Out[0]))
		}
		call, ok := f.Call(y, b.Buffer(s.In[0]), outer, n, inner)
		b.Launch(call)
		return ok
	}
}
