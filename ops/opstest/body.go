package opstest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// BodyRefuses checks that bodies accept no inputs that the evaluations of their operators refuse, so that backends may
// replace any operator by its body: inputs that inference accepts when shapes are known. It fails if fewer than least
// inputs were refused.
func (u Suite) BodyRefuses(t *testing.T, least int) {
	refused := 0
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		if op.Body == nil || op.Eval == nil {
			return
		}
		for i, d := range s.In {
			x, ok := d.(*tensor.Tensor)
			if !ok || x.DType() == tensor.String {
				continue
			}
			for _, bad := range badInputs(t, x) {
				in := slices.Clone(s.In)
				in[i] = bad
				n, err := plainOf(op, s, in)
				if err != nil {
					continue
				}
				_, want := Eval(n, in, false)
				if want == nil {
					continue
				}
				refused++
				if _, err := tryBody(n, in); err == nil {
					t.Errorf("input %d is %v: the body accepts it, the operator does not: %v", i, bad, want)
				}
			}
		}
	})
	if refused < least {
		t.Errorf("only %d inputs were refused, expected at least %d", refused, least)
	}
}

// tryBody is EvalBody with an error for a body that panics when it is built, as backends have it.
func tryBody(n *ir.Node, in []tensor.Datum) (_ []tensor.Datum, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	return EvalBody(&ir.EvalCtx{Node: n}, in)
}

// WideBody evaluates samples in float64. A body for which ops.WideBody is true must give the operator's answer to the
// precision of float64. The check fails if fewer than least samples have such a body.
func (u Suite) WideBody(t *testing.T, least int) {
	wide := 0
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		if op.Body == nil || op.Eval == nil || op.Random {
			return
		}
		in := make([]tensor.Datum, len(s.In))
		some := false
		for i, d := range s.In {
			in[i] = d
			if x, ok := d.(*tensor.Tensor); ok && x.DType() == tensor.Float32 &&
				allows(op, op.In[min(i, len(op.In)-1)].Elem, tensor.Float64) {
				in[i], _ = x.Convert(tensor.Float64, false)
				some = true
			}
		}
		n, err := plainOf(op, s, in)
		if err != nil || !some || !ops.WideBody(n) {
			return
		}
		want, err := Eval(n, in, false)
		if err != nil {
			return
		}
		got, err := EvalBody(&ir.EvalCtx{Node: n}, in)
		if err != nil {
			t.Fatal(err)
		}
		wide++
		for i := range got {
			if err := Near(got[i], want[i], 1e-12, 1e-13); err != nil {
				t.Errorf("output %d: %v", i, err)
			}
		}
	})
	if wide < least {
		t.Errorf("only %d samples were computed by wide bodies, expected at least %d", wide, least)
	}
}
