package tensors

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/rows"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Linear", Row: record.RowKind{Make: rows.RowLinear, Constant: []int{1, 2}},
		Tensor: record.TensorKind{Make: linearKernel}, Flops: rows.ProductFlops})
}

// linearKernel is for float64. For float32 the operator is a row kernel.
func linearKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel { return wideLinear(d, s) }
}
