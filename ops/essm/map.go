package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

// Map is an elementwise operator whose expression is an attribute. Gradients of elementwise operators are made of it.
var Map = ops.Register(&ir.Op{
	Domain: "essm", Name: "Map",
	Doc: `The expression f of the elements at the same place of the inputs, x0, x1 and so on, which broadcast to each
other, as package ir/scalar writes it: "t0 = exp(-x0); t0/(t0 + 1)".`,
	In: ops.Sig("x:T*"), Out: ops.Sig("y:T"),
	Attrs: []ir.AttrSpec{ops.Required(ops.Spec("f", ir.AttrString, "the expression"))},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if len(n.Inputs) == 0 {
			return nil, fmt.Errorf("expected at least one input")
		}
		e, err := scalar.Parse(ops.Str(n, "f"))
		if err != nil {
			return nil, fmt.Errorf("f: %w", err)
		}
		for _, i := range e.Reads() {
			if n.In(i) == nil {
				return nil, fmt.Errorf("f: reads x%d, but there is no input %d", i, i)
			}
		}
		return ops.InferElement(n)
	},
	Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
		e, err := scalar.Parse(ops.Str(n, "f"))
		if err != nil {
			return scalar.Expr{}
		}
		for _, i := range e.Reads() {
			if i >= len(x) || !x[i].Valid() {
				return scalar.Expr{}
			}
		}
		return e.With(x...)
	},
	Tol: ir.Cancelling,
})
