package cpu

func init() {
	rows["Dropout"] = func(s *step) rowMaker {
		if len(s.node.Outputs) > 1 && s.node.Outputs[1] != nil || !s.absent(1) && !s.single(1) || !s.absent(2) && (s.in[2].konst == nil || s.in[2].konst.Len() != 1 || s.in[2].konst.Bytes()[0] != 0) {
			return nil
		}
		return elementwise(func(y, x []float32) { copy(y, x) }) // outside of training it does nothing
	}
}
