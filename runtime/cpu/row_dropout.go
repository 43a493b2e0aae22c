package cpu

import "github.com/essmc/essmc/runtime/lowering"

func init() { register(record{op: "Dropout", row: rowKind{make: rowDropout, constant: []int{2}}}) }

// rowDropout does nothing: it is for what runs outside of training.
func rowDropout(s *lowering.Step) rowMaker {
	if s.Node.Out(1) != nil || !s.Absent(1) && !singleInput(s, 1) || !s.Absent(2) && (s.In[2].Const.Len() != 1 || s.In[2].Const.Bytes()[0] != 0) {
		return nil
	}
	return rowByElement(func(y, x []float32) { copy(y, x) })
}
