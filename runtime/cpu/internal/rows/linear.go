package rows

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// RowLinear computes x Wᵀ + b.
func RowLinear(s *lowering.Step) record.RowMaker {
	shape := s.ConstShape(1)
	return productOf(s, nil, 1, shape[0], shape[1], shape[1], 1, s.Constant(2))
}
