package cpu

import "github.com/essmc/essmc/runtime/lowering"

func init() {
	rows["Dropout"] = func(s *lowering.Step) rowMaker {
		if len(s.Node.Outputs) > 1 && s.Node.Outputs[1] != nil || !s.Absent(1) && !singleInput(s, 1) || !s.Absent(2) && (s.In[2].Const == nil || s.In[2].Const.Len() != 1 || s.In[2].Const.Bytes()[0] != 0) {
			return nil
		}
		return elementwise(func(y, x []float32) { copy(y, x) }) // outside of training it does nothing
	}
}
