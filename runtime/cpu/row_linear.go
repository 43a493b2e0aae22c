package cpu

import "github.com/essmc/essmc/runtime/lowering"

func init() {
	register(record{op: "essm.Linear", row: rowKind{make: rowLinear, constant: []int{1, 2}}, flops: productFlops})
}

// rowLinear is x Wᵀ + b.
func rowLinear(s *lowering.Step) rowMaker {
	shape := s.ConstShape(1)
	return productOf(s, s.Constant(1), 1, shape[0], shape[1], shape[1], 1, s.Constant(2))
}
