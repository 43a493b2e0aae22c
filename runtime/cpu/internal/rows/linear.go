package rows

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Linear", Row: record.RowKind{Make: rowLinear, Constant: []int{1, 2}},
		Flops: ProductFlops})
}

// rowLinear computes x Wᵀ + b.
func rowLinear(s *lowering.Step) record.RowMaker {
	shape := s.ConstShape(1)
	return productOf(s, plain, shape[0], shape[1], shape[1], 1, record.Numbers(s, 2))
}
