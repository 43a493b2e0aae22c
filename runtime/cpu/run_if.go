package cpu

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// ifKernel runs one of the branches as a program; nil where they have none.
func (d *binding) ifKernel(s *lowering.Step) *boundKernel {
	bound := d.Branches[s]
	if bound == nil {
		return nil
	}
	return &boundKernel{run: runIf, subs: d.subs(bound[:])}
}

// runIf takes one of the branches.
func runIf(e *executable, u *unit) error {
	s := u.steps[0]
	cond, ok := e.datum(s.In[0]).(*tensor.Tensor)
	if !ok || cond.DType() != tensor.Bool || cond.Len() != 1 {
		return fmt.Errorf("cond: expected one bool, found %v", e.datum(s.In[0]))
	}
	k := 0
	if tensor.Data[bool](cond)[0] {
		k = 1
	}
	sub := u.subs[k]
	if sub == nil || sub.d.Refused {
		return e.eval(s) // says what is wrong
	}
	in, out := sub.args, sub.results
	for i, v := range s.Branches[k].In {
		in[i] = e.datum(v)
	}
	for i, v := range s.Out {
		out[i] = nil
		if v == nil || e.d.Shapes[v.ID] == nil {
			continue
		}
		if sub.fits(i, e.d.Shapes[v.ID]) {
			out[i] = e.datum(v)
		}
	}
	defer func() {
		clear(in)
		clear(out)
	}()
	if err := sub.Run(e.ctx, in, out); err != nil {
		return err
	}
	for i, v := range s.Out {
		if v == nil || e.d.Shapes[v.ID] != nil && sub.fits(i, e.d.Shapes[v.ID]) {
			continue
		}
		if err := e.store(v, out[i]); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.Name, err)
		}
	}
	return nil
}

// fits reports whether output i has the given shape.
func (e *executable) fits(i int, shape []int) bool {
	o := e.p.Outputs[i].ID
	return e.d.Shapes[o] != nil && slices.Equal(e.d.Shapes[o], shape)
}
