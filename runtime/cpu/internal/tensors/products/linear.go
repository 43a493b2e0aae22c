package products

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Linear", Tensor: record.TensorKind{Make: linearKernel}})
}

// linearKernel is for float64. For float32 the operator is a row kernel.
func linearKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel { return wideLinear(d, s) }
}
