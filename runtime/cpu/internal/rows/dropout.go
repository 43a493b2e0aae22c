package rows

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Dropout", Row: record.RowKind{Make: rowDropout, Constant: []int{2}}})
}

// rowDropout copies its input. It does not fit nodes in training mode.
func rowDropout(s *lowering.Step) record.RowMaker {
	if s.Node.Out(1) != nil || !s.Absent(1) && !record.SingleInput(s, 1) ||
		!s.Absent(2) && (s.Fixed(2).Len() != 1 || s.Fixed(2).Bytes()[0] != 0) {
		return nil
	}
	return record.RowByElement(func(y, x []float32) { copy(y, x) })
}
