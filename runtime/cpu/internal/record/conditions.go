package record

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// made returns the implementation of one kind for a step, or the zero M if the operator does not have the kind, or
// if one of the inputs listed in constant is neither constant nor settled. Optional inputs of the operator may be absent.
func made[M any](s *lowering.Step, constant []int, make func(s *lowering.Step) M) (m M) {
	if make == nil {
		return m
	}
	for _, i := range constant {
		if s.Absent(i) && !s.Node.Op.In[i].Optional || !s.Absent(i) && s.In[i].Fixed() == nil {
			return m
		}
	}
	return make(s)
}

// ByteTyped reports whether input i of the step is a tensor of int8 or uint8.
func ByteTyped(s *lowering.Step, i int) bool {
	if s.Absent(i) {
		return false
	}
	t, ok := ir.AsTensor(s.In[i].Type)
	return ok && (t.Elem == tensor.Int8 || t.Elem == tensor.Uint8)
}

// SingleInput reports whether input i has a declared shape of one element: () or (1).
func SingleInput(s *lowering.Step, i int) bool {
	t, ok := ir.AsTensor(s.In[i].Type)
	if !ok || t.NoRank {
		return false
	}
	shape, ok := t.Shape.Known()
	return ok && (len(shape) == 0 || len(shape) == 1 && shape[0] == 1)
}

// RankOf returns the number of axes of input i; -1 if the input is absent or its rank unknown.
func RankOf(s *lowering.Step, i int) int {
	if s.Absent(i) {
		return -1
	}
	t, ok := ir.AsTensor(s.In[i].Type)
	if !ok || t.NoRank {
		return -1
	}
	return len(t.Shape)
}
