package tensors

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Dropout", Build: dropout, Takes: func(s *lowering.Step) bool {
		return takes(whole)(s) && !trains(s)
	}})
}

// trains reports whether a Dropout may drop elements: unless its third input is the constant false.
func trains(s *lowering.Step) bool {
	v := s.Node.In(2)
	return v != nil && (v.Const == nil || v.Const.DType() != tensor.Bool || v.Const.Len() != 1 || v.Const.Bytes()[0] != 0)
}

// dropout is the identity; its mask is all true.
func dropout(b *record.Builder, s *lowering.Step) bool {
	if !s.Absent(1) && record.Size(b.Binding.Shape(s.In[1])) != 1 { // the ratio
		return false
	}
	if s.Out[0] != nil {
		view(b, s)
	}
	if len(s.Out) > 1 && s.Out[1] != nil {
		b.Fill(b.Buffer(s.Out[1]), 1, b.Bytes(s.Out[1]))
	}
	return true
}
