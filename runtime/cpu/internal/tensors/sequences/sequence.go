package sequences

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

// sequenceInsertKernel appends an item to a sequence. Earlier items were copied, if necessary, when they were
// inserted; an evaluation would look at all of them in every iteration of a loop. If the sequence is the last one
// that the same step made, it grows in place: nothing else uses the memory past its end.
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
				return e.Fallback(s) // the evaluation reports the error
			}
			items, more := q.Items, int64(ops.ItemSize)
			if last.Value() != q {
				items = slices.Clip(items)
			}
			if n := len(items); n == cap(items) { // it grows to at most twice its size
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
