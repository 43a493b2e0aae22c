package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Identity returns its input.
var Identity = ops.Register(&ir.Op{
	Name: "Identity", Since: 24, Doc: "The input itself: a tensor, a sequence or an optional.",
	In: ops.Sig("input:V"), Out: ops.Sig("output:V"), Elems: elems("V", ops.Any),
	Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return x[0] },
	Infer:   func(n *ir.Node) ([]ir.Type, error) { return one(n.In(0).Type) },
	Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		if len(in) == 0 {
			return []tensor.Datum{nil}, nil
		}
		return in[:1], nil
	},
	Tol: ir.Exact,
})
