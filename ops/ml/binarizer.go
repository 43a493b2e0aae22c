package ml

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

// Binarizer compares with a threshold.
var Binarizer = ops.Register(&ir.Op{
	Domain: Domain, Name: "Binarizer", Since: 1,
	Doc: "1 where X is greater than the threshold, 0 elsewhere.",
	In:  ops.Sig("X:T[...]"), Out: ops.Sig("Y:T[...]"), Elems: elems("T", numeric),
	Attrs: []ir.AttrSpec{ops.FloatSpec("threshold", 0, "threshold for 1")},
	Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
		return scalar.Greater(x[0], scalar.Const(ops.Float(n, "threshold")))
	},
	Along: alongOwn(never), Tol: ir.Exact,
})
