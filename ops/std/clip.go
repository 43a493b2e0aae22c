package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Clip bounds elements.
var Clip = ops.Register(&ir.Op{
	Name: "Clip", Since: 13,
	Doc: "min(max(input, min), max) for each element. min and max are scalars; without them there is no bound.",
	In:  ops.Sig("input:T[...]", "min:T?", "max:T?"), Out: ops.Sig("output:T[...]"), Elems: elems("T", ops.Numbers),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		for i, what := range []string{"min", "max"} {
			if v := n.In(i + 1); v != nil && v.Shape() != nil {
				if k, ok := v.Shape().Size().Known(); ok && k != 1 {
					return nil, fmt.Errorf("%s: expected one number, found %v", what, v.Type)
				}
			}
		}
		return b.Outputs(n.Op)
	},
	Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
		bound := func(b scalar.Expr, sign int) scalar.Expr {
			if !b.Valid() {
				return scalar.Const(math.Inf(sign))
			}
			return b
		}
		return scalar.Clip(x[0], bound(x[1], -1), bound(x[2], 1))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		args := []tensor.Datum{t, nil, nil}
		for i, what := range []string{"min", "max"} {
			b := ops.Tensor(in, i+1)
			if b == nil {
				continue
			}
			if b.Len() != 1 || b.DType() != t.DType() {
				return nil, fmt.Errorf("%s: expected one %v, found %s", what, t.DType(), b)
			}
			if b, err = b.Reshape(); err != nil { // some exporters add an axis
				return nil, err
			}
			args[i+1] = b
		}
		if t.DType() == tensor.Uint64 {
			lo, hi := uint64(0), uint64(math.MaxUint64)
			if b := ops.Tensor(in, 1); b != nil {
				lo = tensor.Data[uint64](b)[0]
			}
			if b := ops.Tensor(in, 2); b != nil {
				hi = tensor.Data[uint64](b)[0]
			}
			out := ops.Make[uint64](c, t.Len())
			for i, x := range ops.All(c, tensor.Data[uint64](t)) {
				out[i] = min(max(x, lo), hi)
			}
			return ops.One(tensor.FromSlice(out, t.Shape()...), nil)
		}
		if t.DType().IsInt() {
			lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
			if b, err := ints(c, in, 1); err != nil {
				return nil, err
			} else if b != nil {
				lo = b[0]
			}
			if b, err := ints(c, in, 2); err != nil {
				return nil, err
			} else if b != nil {
				hi = b[0]
			}
			v, err := ops.Int64s(c, t)
			if err != nil {
				return nil, err
			}
			for i, x := range ops.All(c, v) {
				v[i] = min(max(x, lo), hi)
			}
			return ops.One(fromInts(c, t.DType(), v, t.Shape()...))
		}
		return ops.EvalElement(c, args)
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		x := in[0]
		if v := n.In(1); v != nil {
			x = op(b, "Max", x, in[1])
		}
		if v := n.In(2); v != nil {
			x = op(b, "Min", x, in[2])
		}
		if x == in[0] {
			x = op(b, "Identity", x)
		}
		return []*ir.Value{x}
	},
	Tol: ir.Exact,
})
