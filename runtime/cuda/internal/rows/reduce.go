package rows

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	for op, r := range map[string]kernel.Reduction{"ReduceSum": kernel.ReduceSum, "ReduceMean": kernel.ReduceMean,
		"ReduceSumSquare": kernel.ReduceSumSquare, "ReduceL1": kernel.ReduceL1, "ReduceL2": kernel.ReduceL2,
		"ReduceLogSum": kernel.ReduceLogSum, "ReduceLogSumExp": kernel.ReduceLogSumExp, "ReduceMax": kernel.ReduceMax,
		"ReduceMin": kernel.ReduceMin, "ReduceProd": kernel.ReduceProd} {
		record.Register(record.Record{Op: op, Takes: reduces, Build: reduce(r)})
	}
	for op, r := range map[string]kernel.Reduction{"GlobalAveragePool": kernel.ReduceMean, "GlobalMaxPool": kernel.ReduceMax} {
		record.Register(record.Record{Op: op, Takes: float32s(1), Build: global(r)})
	}
	record.Register(record.Record{Op: "GlobalLpPool", Takes: takesLp, Build: globalLp})
}

// reduces accepts all types with arithmetic.
func reduces(s *lowering.Step) bool {
	t, ok := ir.AsTensor(s.Node.In(0).Type)
	return ok && ops.Newest(s.Node.Op) && kernel.Converts(t.Elem, t.Elem)
}

func reduce(r kernel.Reduction) func(b *record.Builder, s *lowering.Step) bool {
	return func(b *record.Builder, s *lowering.Step) bool {
		shape := b.Binding.ShapeOf(s, 0)
		var list []int64
		if !s.Absent(1) && record.Size(b.Binding.ShapeOf(s, 1)) > 0 {
			var ok bool
			if list, ok = b.Binding.Ints(s, 1); !ok {
				return false
			}
		}
		along := make([]bool, len(shape))
		axes, err := ops.AxesOf(list, len(shape))
		if err != nil {
			return false
		}
		for _, a := range axes {
			along[a] = true
		}
		if len(list) == 0 && !s.Node.Attrs.Bool("noop_with_empty_axes", false) {
			for a := range along {
				along[a] = true
			}
		}
		return join(b, s, r, along)
	}
}

func global(r kernel.Reduction) func(b *record.Builder, s *lowering.Step) bool {
	return func(b *record.Builder, s *lowering.Step) bool {
		along := make([]bool, len(b.Binding.ShapeOf(s, 0)))
		for a := 2; a < len(along); a++ {
			along[a] = true
		}
		return join(b, s, r, along)
	}
}

func takesLp(s *lowering.Step) bool {
	p := s.Node.Attrs.Int("p", 2)
	return float32s(1)(s) && (p == 1 || p == 2)
}

func globalLp(b *record.Builder, s *lowering.Step) bool {
	if s.Node.Attrs.Int("p", 2) == 1 {
		return global(kernel.ReduceL1)(b, s)
	}
	return global(kernel.ReduceL2)(b, s)
}

func join(b *record.Builder, s *lowering.Step, r kernel.Reduction, along []bool) bool {
	if b.Bytes(s.Out[0]) == 0 {
		return true
	}
	if t := b.Binding.DType(s.In[0]); t != tensor.Float32 {
		call, ok := kernel.ReduceTyped(r, b.Buffer(s.Out[0]), b.Buffer(s.In[0]), t, b.Binding.ShapeOf(s, 0), along)
		b.Launch(call)
		return ok
	}
	calls, ok := kernel.Reduce(r, b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Binding.ShapeOf(s, 0), along, b.Scratch)
	b.Launch(calls...)
	return ok
}
