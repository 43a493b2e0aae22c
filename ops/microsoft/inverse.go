package microsoft

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Inverse inverts matrices.
var Inverse = ops.Register(&ir.Op{
	Domain: Domain, Name: "Inverse",
	Doc: "The inverse of each matrix on the last two axes; infinities and NaN for a singular matrix.",
	In:  ops.Sig("X:T[...,N,N]"), Out: ops.Sig("Y:T[...,N,N]"), Elems: types{"T": real3},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		if x.Rank() < 2 || x.Dim(-1) != x.Dim(-2) {
			return nil, fmt.Errorf("expected square matrices, found %s", x)
		}
		n, v := x.Dim(-1), ops.F64(c, in, 0)
		for at := 0; at < len(v); at += n * n {
			c.Step(1)
			invert(c, v[at:at+n*n], n)
		}
		return ops.One(ops.Real(c, x.DType(), v, x.Shape()...))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		if !f.Constant() && !f.Global && f.Axis >= len(n.In(0).Shape())-2 {
			f = ops.Global(n, in)
		}
		return []ir.Fact{f}
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return ir.Work{Flops: 2 * ops.Count(n.In(0), bind) * ops.DimAt(n.In(0), -1, bind), Bytes: ops.BytesOf(n, bind)}
	},
	NoGradient: ops.NotYet,
	Tol:        ir.Long,
})

// invert replaces an n by n matrix by its inverse, by Gauss-Jordan elimination with the largest element of the column
// as pivot.
func invert(c *ir.EvalCtx, a []float64, n int) {
	inv := ops.Make[float64](c, len(a))
	for i := range ops.Each(c, n) {
		inv[i*n+i] = 1
	}
	for k := range n {
		c.Step(1)
		p := k
		c.Step(n - k)
		for i := k + 1; i < n; i++ {
			if math.Abs(a[i*n+k]) > math.Abs(a[p*n+k]) {
				p = i
			}
		}
		d := a[p*n+k]
		for j := range ops.Each(c, n) {
			a[k*n+j], a[p*n+j] = a[p*n+j], a[k*n+j]
			inv[k*n+j], inv[p*n+j] = inv[p*n+j], inv[k*n+j]
		}
		for j := range ops.Each(c, n) {
			a[k*n+j] /= d
			inv[k*n+j] /= d
		}
		for i := range n {
			c.Step(1)
			f := a[i*n+k]
			if i == k || f == 0 {
				continue
			}
			for j := range ops.Each(c, n) {
				a[i*n+j] -= f * a[k*n+j]
				inv[i*n+j] -= f * inv[k*n+j]
			}
		}
	}
	ops.Put(c, a, inv)
}
