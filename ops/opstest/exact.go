package opstest

import (
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Exact checks operators whose results need no rounding (Op.Tol is ir.Exact). Their inputs are float16 or bfloat16
// numbers, given as float32. The results must be such numbers, too. An operator that passes on all samples must state
// that it is exact, unless silent has it with a reason. The check fails if fewer than least operators are exact.
func (u Suite) Exact(t *testing.T, least int, silent map[string]string) {
	holds, fails := map[*ir.Op]bool{}, map[*ir.Op]bool{}
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		if op.Random || !ops.Newest(op) {
			return
		}
		for _, d := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			in, ok := narrowed(op, s.In, d)
			if !ok {
				continue
			}
			n, err := plainOf(op, s, in)
			if len(n.Subgraphs()) > 0 {
				return
			}
			if err != nil {
				continue
			}
			out, err := Eval(n, in, false)
			if err != nil {
				continue
			}
			for i, x := range out {
				x, ok := x.(*tensor.Tensor)
				if !ok || x.DType() != tensor.Float32 || i >= len(op.Out) || !allows(op, op.Out[i].Elem, d) {
					continue
				}
				y, err := x.Convert(d, false)
				if err != nil {
					t.Fatal(err)
				}
				back, err := y.Convert(tensor.Float32, false)
				if err != nil {
					t.Fatal(err)
				}
				if err := Near(back, x, 0, 0); err != nil {
					fails[op] = true
					if op.Tol == ir.Exact {
						t.Errorf("output %d is not exact in %v: %v", i, d, err)
					}
				} else {
					holds[op] = true
				}
			}
		}
	})
	checked := 0
	for op := range holds {
		switch listed := silent[op.FullName()] != ""; {
		case op.Tol == ir.Exact:
			checked++
			if listed {
				t.Errorf("%s states that it is exact; it need not be listed", op.FullName())
			}
		case !fails[op] && !listed:
			t.Errorf("%s is exact on all samples, and does not state it", op.FullName())
		case fails[op] && listed:
			t.Errorf("%s is not exact; it need not be listed", op.FullName())
		}
	}
	if checked < least {
		t.Errorf("only %d operators were checked, expected at least %d", checked, least)
	}
}

// narrowed returns a sample with the float32 numbers rounded to d where the operator allows that type. ok is false if
// there are none, or if an input is not a tensor.
func narrowed(op *ir.Op, in []tensor.Datum, d tensor.DType) (out []tensor.Datum, ok bool) {
	for i, x := range in {
		t, isTensor := x.(*tensor.Tensor)
		switch {
		case x == nil:
		case !isTensor:
			return nil, false
		case t.DType() == tensor.Float32 && len(op.In) > 0 && allows(op, op.In[min(i, len(op.In)-1)].Elem, d):
			y, err := t.Convert(d, false)
			if err == nil {
				y, err = y.Convert(tensor.Float32, false)
			}
			if err != nil {
				return nil, false
			}
			x, ok = y, true
		}
		out = append(out, x)
	}
	return out, ok
}

// allows reports whether a parameter's element type, which may be a variable, can be d.
func allows(op *ir.Op, elem string, d tensor.DType) bool {
	if elem == "" || elem[0] < 'A' || elem[0] > 'Z' {
		return elem == d.String()
	}
	list := op.Elems[elem]
	return list == nil || slices.Contains(list, d)
}
