package record

import (
	"context"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// numeric reports whether the elements of a tensor are real numbers.
func numeric(t *tensor.Tensor) bool { return t.ReadFloat64s(nil, 0) == nil }

// Fixed reports whether the inputs of a step with the given numbers are constants or settled, and numbers, or absent.
// Their shapes are known.
func Fixed(s *lowering.Step, inputs ...int) bool {
	for _, i := range inputs {
		if t := s.Fixed(i); !s.Absent(i) && (t == nil || !numeric(t)) {
			return false
		}
	}
	return true
}

// Numbers returns the elements of input i as float64, or nil if it is neither constant nor settled. Those of a settled
// input are its content at the time of the call: they are for Constant.Make and for Decided, and nothing else may depend
// on them.
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

// decision identifies what is decided by the content of a node's inputs.
type decision struct {
	node *ir.Node
	name string
}

// Decided returns what f finds about the constant and settled inputs of a step, such as whether a system is stable. If one
// is settled, f is called again for each new content; executables are bound anew if it finds otherwise. name
// distinguishes what is decided by one step. f must not keep the Builder or its Binding.
func (b *Builder) Decided(s *lowering.Step, name string, f func() bool) bool {
	from := lowering.SettledOf(s.In)
	if from == nil {
		return f()
	}
	c := b.Binding.Program.Config.Constants
	return *c.Settled(from, nil, decision{s.Node, name}, func() (any, func(context.Context) error) {
		found := f()
		return &found, func(context.Context) error {
			if now := f(); now != found {
				found = now
				c.Choose()
			}
			return nil
		}
	}).(*bool)
}
