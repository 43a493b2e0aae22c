package tensors

import (
	"slices"
	"weak"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "SequenceInsert", Tensor: record.TensorKind{Make: sequenceInsertKernel}})
}

// sequenceInsertKernel puts an item at the end of a sequence. The items before were copied, where that was necessary,
// when they were put there; an evaluation would look at all of them, in every iteration of a loop. A sequence that the
// same step has made last grows in place: what is behind its end belongs to nobody else.
func sequenceInsertKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) || !s.Absent(2) {
		return nil
	}
	return func(*lowering.Binding) *record.TensorKernel {
		var last weak.Pointer[tensor.Sequence]
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			q, ok := f.Datum(s.In[0]).(*tensor.Sequence)
			item := f.Own(f.Datum(s.In[1]))
			if !ok || q == nil || item == nil {
				return e.Fallback(s) // says what is wrong
			}
			items := q.Items
			if last.Value() != q {
				items = slices.Clip(items)
			}
			made := &tensor.Sequence{Items: append(items, item)}
			last = weak.Make(made)
			f.Keep(s.Out[0], made)
			return nil
		}}
	}
}
