package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Where selects elements of X or Y by a condition.
var Where = ops.Register(&ir.Op{
	Name: "Where", Since: 16, Doc: "X where condition is true, Y elsewhere, with broadcasting of all three.",
	In: ops.Sig("condition:bool", "X:T", "Y:T"), Out: ops.Sig("output:T"), Elems: elems("T", ops.Any),
	Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return scalar.Select(x[0], x[1], x[2]) },
	// Elements of all types are moved, not computed.
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		cond, err := need(in, 0, "condition")
		if err != nil {
			return nil, err
		}
		x, y, _, err := operandsAt(in, 1)
		if err != nil {
			return nil, err
		}
		if cond.DType() != tensor.Bool {
			return nil, fmt.Errorf("condition: expected bool, found %v", cond.DType())
		}
		if err := sameElem(x, y); err != nil {
			return nil, err
		}
		shape, err := ops.Broadcast(cond.Shape(), x.Shape(), y.Shape())
		if err != nil {
			return nil, err
		}
		out, err := alloc(c, x.DType(), shape)
		if err != nil {
			return nil, err
		}
		pick := ops.BroadcastTo(c, tensor.Data[bool](cond), cond.Shape(), shape)
		for k, from := range []*tensor.Tensor{x, y} {
			m, i := newMover(c, out, from), 0
			ops.Walk(c, shape, ops.BroadcastStrides(from.Shape(), shape), 0, func(o int) {
				if pick[i] == (k == 0) {
					m.copy(i, o, 1)
				}
				i++
			})
		}
		return ops.One(out, nil)
	},
	Tol: ir.Exact,
})

// operandsAt is operands for inputs from index i on.
func operandsAt(in []tensor.Datum, i int) (a, b *tensor.Tensor, shape []int, err error) {
	if i > len(in) {
		return nil, nil, nil, fmt.Errorf("input %d is missing", i)
	}
	return operands(in[i:])
}
