package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Det computes determinants.
var Det = ops.Same(ops.Register(&ir.Op{
	Name: "Det", Since: 22, Doc: "Determinants of the square matrices in the last two axes of X.",
	In: ops.Sig("X:T[...,M,M]"), Out: ops.Sig("Y:T[...]"),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		if x.Rank() < 2 || x.Dim(x.Rank()-1) != x.Dim(x.Rank()-2) {
			return nil, fmt.Errorf("X: expected square matrices, found %s", x)
		}
		shape, m := x.Shape()[:x.Rank()-2], x.Dim(x.Rank()-1)
		v := ops.F64(c, in, 0)
		y := ops.Make[float64](c, product(shape))
		for i := range ops.Each(c, len(y)) {
			y[i] = determinant(c, v[i*m*m:(i+1)*m*m], m)
		}
		return ops.One(ops.Real(c, x.DType(), y, shape...))
	},
	Along: alongKeep(func(_ *ir.Node, axis, rank int) bool { return axis >= rank-2 }),
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return workOf(n, bind, ops.Count(n.In(0), bind)*ops.DimAt(n.In(0), -1, bind))
	},
	NoGradient: ops.NotYet,
	Tol:        ir.Summing,
}), 11)

// determinant eliminates in place, with row pivoting.
func determinant(c *ir.EvalCtx, a []float64, m int) float64 {
	det := 1.0
	for k := range m {
		c.Step(1)
		best := k
		c.Step(m - k)
		for r := k + 1; r < m; r++ {
			if math.Abs(a[r*m+k]) > math.Abs(a[best*m+k]) {
				best = r
			}
		}
		if best != k {
			for j := range ops.Each(c, m) {
				a[k*m+j], a[best*m+j] = a[best*m+j], a[k*m+j]
			}
			det = -det
		}
		p := a[k*m+k]
		if det *= p; p == 0 {
			return 0
		}
		for r := k + 1; r < m; r++ {
			f := a[r*m+k] / p
			c.Step(m - k)
			for j := k; j < m; j++ {
				a[r*m+j] -= f * a[k*m+j]
			}
		}
	}
	return det
}
