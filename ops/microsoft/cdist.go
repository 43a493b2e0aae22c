package microsoft

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// CDist computes the distances between the rows of two matrices. They are sums of squared differences. ONNX Runtime
// expands the squares, which loses the digits of small distances.
var CDist = ops.Register(&ir.Op{
	Domain: Domain, Name: "CDist", Doc: "The distances of each row of A from each row of B.",
	In: ops.Sig("A:T[M,K]", "B:T[N,K]"), Out: ops.Sig("C:T[M,N]"),
	Elems: types{"T": {tensor.Float32, tensor.Float64}},
	Attrs: []ir.AttrSpec{ops.ChoiceSpec("metric", "the square of the distance, or the distance", "sqeuclidean",
		"euclidean")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		a, b := ops.Tensor(in, 0), ops.Tensor(in, 1)
		if a.Rank() != 2 || b.Rank() != 2 || a.Dim(1) != b.Dim(1) {
			return nil, fmt.Errorf("expected matrices with rows of one size, found %s and %s", a, b)
		}
		m, n, k := a.Dim(0), b.Dim(0), a.Dim(1)
		if _, err := ops.Elems([]int{m, n}); err != nil {
			return nil, err
		}
		x, y := ops.F64(c, in, 0), ops.F64(c, in, 1)
		out, root := ops.Make[float64](c, m*n), ops.Str(c.Node, "metric") == "euclidean"
		for i := range ops.Each(c, m) {
			for j := range ops.Each(c, n) {
				var sum float64
				for p, v := range ops.All(c, x[i*k:(i+1)*k]) {
					d := v - y[j*k+p]
					sum += d * d
				}
				if root {
					sum = math.Sqrt(sum)
				}
				out[i*n+j] = sum
			}
		}
		return ops.One(ops.Real(c, a.DType(), out, m, n))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		if in[1].Constant() { // rows of A stay separate
			f := in[0]
			f.State = 0
			if f.Constant() || f.Global || f.Axis == 0 {
				return []ir.Fact{f}
			}
		}
		return []ir.Fact{ops.Global(n, in)}
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return ir.Work{Flops: ops.Product(3, ops.Count(n.In(0), bind), ops.DimAt(n.In(1), 0, bind)),
			Bytes: ops.BytesOf(n, bind)}
	},
	NoGradient: ops.NotYet,
	Tol:        ir.Summing,
})
