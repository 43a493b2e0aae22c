package opstest

import (
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Reshapes checks Op.Reshapes. The result of an operator that states it has the elements of the first input, in order.
// An operator for which that is so in all samples, and whose result has another shape in one of them, must state it;
// earlier versions and operators with a body need not, since they become others.
func (u Suite) Reshapes(t *testing.T) {
	shaped, moved := map[*ir.Op]bool{}, map[*ir.Op]bool{}
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		out, err := Eval(Plain(t, op, s), s.In, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.In) == 0 {
			return
		}
		x, ok := s.In[0].(*tensor.Tensor)
		y, ok2 := out[0].(*tensor.Tensor)
		if same := ok && ok2 && len(out) == 1 && sameElements(x, y); !same {
			moved[op] = true
		} else if !slices.Equal(x.Shape(), y.Shape()) {
			shaped[op] = true
		}
		if op.Reshapes && moved[op] {
			t.Errorf("%v became %v", s.In[0], out[0])
		}
	})
	for _, op := range ops.Default.All() {
		found := shaped[op] && !moved[op]
		if op.Domain == u.Domain && op.Reshapes != found && (op.Reshapes || ops.Newest(op) && op.Eval != nil) {
			t.Errorf("%s-%d: Op.Reshapes is %v, its samples differ", op.FullName(), op.Since, op.Reshapes)
		}
	}
}

// sameElements reports whether two tensors have the same elements in order.
func sameElements(x, y *tensor.Tensor) bool {
	z, err := x.Reshape(y.Shape()...)
	return err == nil && tensor.Equal(z, y)
}
