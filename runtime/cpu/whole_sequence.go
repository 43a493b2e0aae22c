package cpu

import (
	"slices"
	"weak"

	"github.com/essmc/essmc/ir/tensor"
)

func init() {
	registerKernels(map[string]func(s *step) kernelMaker{"SequenceInsert": sequenceInsertKernel})
}

// sequenceInsertKernel puts an item at the end of a sequence. The items before were copied, where that was necessary, when they
// were put there; an evaluation would look at all of them, in every iteration of a loop. A sequence that the same step has made last grows in
// place: what is behind its end belongs to nobody else.
func sequenceInsertKernel(s *step) kernelMaker {
	if s.absent(0) || s.absent(1) || !s.absent(2) {
		return nil
	}
	return func(*binding) *boundKernel {
		var last weak.Pointer[tensor.Sequence]
		return &boundKernel{run: func(e *executable, _ *unit) error {
			q, ok := e.datum(s.in[0]).(*tensor.Sequence)
			item := e.own(e.datum(s.in[1]))
			if !ok || q == nil || item == nil {
				return e.eval(s) // says what is wrong
			}
			items := q.Items
			if last.Value() != q {
				items = slices.Clip(items)
			}
			made := &tensor.Sequence{Items: append(items, item)}
			last = weak.Make(made)
			e.data[s.out[0].id] = made
			return nil
		}}
	}
}
