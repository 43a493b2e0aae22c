package tensors

import (
	"slices"
	"unsafe"
	"weak"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
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
			item, err := f.Own(f.Datum(s.In[1]))
			if err != nil {
				return err
			}
			if !ok || q == nil || item == nil {
				return e.Fallback(s) // says what is wrong
			}
			items, more := q.Items, int64(ops.ItemSize)
			if last.Value() != q {
				items = slices.Clip(items)
			}
			if n := len(items); n == cap(items) { // it grows to twice the size at most
				more += int64(2*n) * int64(unsafe.Sizeof(item))
			}
			if err := f.Take(more, s.Out[0].Name); err != nil {
				return err
			}
			made := &tensor.Sequence{Items: append(items, item)}
			last = weak.Make(made)
			f.Keep(s.Out[0], made)
			return nil
		}}
	}
}
