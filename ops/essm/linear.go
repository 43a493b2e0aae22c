package essm

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Linear is a dense layer over the last axis.
var Linear = ops.Register(&ir.Op{
	Domain: "essm", Name: "Linear",
	Doc: "y = x Wᵀ + b over the last axis. The weight is laid out (outputs, inputs), as in checkpoints. Folded " +
		"weights may be float64.",
	In: ops.Sig("x:T[...,K]", "w:W[M,K]", "b:V[M]?"), Out: ops.Sig("y:T[...,M]"),
	Elems: map[string][]tensor.DType{"T": ops.Floats, "W": ops.Floats, "V": ops.Floats},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, w := ops.Tensor(in, 0), ops.Tensor(in, 1)
		m, k := w.Dim(0), w.Dim(1)
		a, b, bias := ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2)
		if x.Dim(-1) != k {
			return nil, ops.SameShape([]int{x.Dim(-1)}, []int{k})
		}
		rows := x.Len() / max(k, 1)
		y := ops.Make[float64](c, rows*m)
		for r := range rows {
			c.Step(1)
			row := a[r*k : (r+1)*k]
			for i := range m {
				c.Step(1)
				sum := 0.0
				if bias != nil {
					sum = bias[i]
				}
				for j, v := range ops.All(c, b[i*k:(i+1)*k]) {
					sum += v * row[j]
				}
				y[r*m+i] = sum
			}
		}
		return ops.One(ops.Real(c, x.DType(), y, append(append([]int{}, x.Shape()[:x.Rank()-1]...), m)...))
	},
	Along:    ops.AlongRows,
	Gradient: gradLinear,
	Linear:   ops.LinearIn([]int{0, 2}, []int{1, 2}),
	Tol:      ir.Summing,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return ir.Work{Flops: 2 * ops.Count(n.Outputs[0], bind) * ops.DimAt(n.In(1), 1, bind),
			Bytes: ops.BytesOf(n, bind)}
	},
})

// Affine scales and shifts each feature.
var Affine = ops.Register(&ir.Op{
	Domain: "essm", Name: "Affine",
	Doc: "y = scale·x + shift per feature (last axis): a batch norm with fixed statistics. The constants are " +
		"float64, so folding is exact to rounding.",
	In: ops.Sig("x:T[...,H]", "scale:float64[H]", "shift:float64[H]"), Out: ops.Sig("y:T[...,H]"),
	Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr {
		return scalar.Add(scalar.Mul(x[1], x[0]), x[2])
	},
	Along: ops.AlongRows,
	Tol:   ir.Rounding,
})
