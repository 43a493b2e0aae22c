package cpu

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// ifKernel runs one of the branches as a program; nil where they have none.
func (d *binding) ifKernel(s *step) *boundKernel {
	bound := d.branches[s]
	if bound == nil {
		return nil
	}
	return &boundKernel{run: runIf, subs: d.subs(bound[:])}
}

// runIf takes one of the branches.
func runIf(e *executable, u *unit) error {
	s := u.steps[0]
	cond, ok := e.datum(s.in[0]).(*tensor.Tensor)
	if !ok || cond.DType() != tensor.Bool || cond.Len() != 1 {
		return fmt.Errorf("cond: expected one bool, found %v", e.datum(s.in[0]))
	}
	k := 0
	if tensor.Data[bool](cond)[0] {
		k = 1
	}
	sub := u.subs[k]
	if sub == nil || sub.d.refused {
		return e.eval(s) // says what is wrong
	}
	in, out := sub.args, sub.results
	for i, v := range s.branches[k].in {
		in[i] = e.datum(v)
	}
	for i, v := range s.out {
		out[i] = nil
		if v == nil || e.d.shapes[v.id] == nil {
			continue
		}
		if sub.fits(i, e.d.shapes[v.id]) {
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
	for i, v := range s.out {
		if v == nil || e.d.shapes[v.id] != nil && sub.fits(i, e.d.shapes[v.id]) {
			continue
		}
		if err := e.store(v, out[i]); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.name, err)
		}
	}
	return nil
}

// fits reports whether output i has the given shape.
func (e *executable) fits(i int, shape []int) bool {
	o := e.p.outputs[i].id
	return e.d.shapes[o] != nil && slices.Equal(e.d.shapes[o], shape)
}
