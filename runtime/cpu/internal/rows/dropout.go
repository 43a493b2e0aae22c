package rows

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Dropout", Numbers: "a constant mode decides whether the input is copied", Row: record.RowKind{Make: rowDropout}})
}

// rowDropout copies its input. It does not fit nodes in training mode, so the mode must be a constant.
func rowDropout(s *lowering.Step) record.RowMaker {
	if s.Node.Out(1) != nil || !s.Absent(1) && !record.SingleInput(s, 1) ||
		!s.Absent(2) && (s.In[2].Const == nil || s.In[2].Const.Len() != 1 || s.In[2].Const.Bytes()[0] != 0) {
		return nil
	}
	return record.RowByElement(func(y, x []float32) { copy(y, x) })
}
