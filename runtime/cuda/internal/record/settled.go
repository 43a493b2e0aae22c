package record

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// Numeric reports whether the elements of a tensor are real numbers.
func Numeric(t *tensor.Tensor) bool { return t.ReadFloat64s(nil, 0) == nil }

// Fixed reports whether the inputs of a step with the given numbers are constants or settled, and numbers, or absent.
// Their shapes are known.
func Fixed(s *lowering.Step, inputs ...int) bool {
	for _, i := range inputs {
		if t := s.Fixed(i); !s.Absent(i) && (t == nil || !Numeric(t)) {
			return false
		}
	}
	return true
}

// Numbers returns the elements of input i as float64, or nil if it is neither constant nor settled. Those of a settled
// input are its content at the time of the call: they are for Constant.Make and for Decided, and nothing else may
// depend on them.
func Numbers(s *lowering.Step, i int) []float64 {
	t := s.Fixed(i)
	if t == nil {
		return nil
	}
	v, err := t.Float64s()
	if err != nil {
		return nil
	}
	return v
}
