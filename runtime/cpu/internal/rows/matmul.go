package rows

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "MatMul", Row: record.RowKind{Make: rowMatMul, Constant: []int{1}},
		Flops: ProductFlops})
}

// rowMatMul computes x W with a constant matrix.
func rowMatMul(s *lowering.Step) record.RowMaker {
	shape := s.ConstShape(1)
	if len(shape) != 2 {
		return nil
	}
	return productOf(s, plain, shape[1], shape[0], 1, shape[1], nil)
}
