package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SVMRegressor is regression by a support vector machine.
var SVMRegressor = ops.Register(&ir.Op{
	Domain: Domain, Name: "SVMRegressor", Since: 1,
	Doc: "For each row of X the sum of coefficients times kernels with the support vectors, or the product with the " +
		"coefficients if there are " +
		"none, plus rho. With one_class, 1 if that is above 0 and -1 otherwise.",
	In: ops.Sig("X:T"), Out: ops.Sig("Y:float32[_,1]"), Elems: elems("T", numeric),
	Attrs: svmAttrs(ops.IntSpec("n_supports", 0, "number of support vectors"),
		ops.IntSpec("one_class", 0, "whether the result is 1 for inliers and -1 for outliers")),
	Infer: perSample(func(_ *ir.Node, d ir.Dim) ([]ir.Type, error) {
		return []ir.Type{ir.Tensor(tensor.Float32, d, 1)}, nil
	}),
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return perRow(n, bind, listed(n, "support_vectors", "coefficients"))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		m, err := svmRegressorOf(c.Node)
		if err != nil {
			return nil, err
		}
		v, rows, cols, err := matrix(c, in)
		if err != nil {
			return nil, err
		}
		if err := m.check(cols); err != nil {
			return nil, err
		}
		out := ops.Make[float64](c, rows)
		for r := range len(out) {
			c.Step(1)
			x := v[r*cols : (r+1)*cols]
			if !m.Linear {
				x = m.all(c, x, m.Vectors, m.total)
			}
			out[r] = dot(c, x, m.Coefficients) + m.rho[0]
			m.Finish(c, out[r:r+1], nil)
		}
		return ops.One(ops.Real(c, tensor.Float32, out, rows, 1))
	},
	Along: alongSamples, NoGradient: fitted, Tol: ir.Summing,
})

func svmRegressorOf(n *ir.Node) (*SVM, error) {
	m := &SVM{Targets: 1, Scores: 1, inliers: ops.Int(n, "one_class") != 0}
	if err := m.read(n); err != nil {
		return nil, err
	}
	count := ops.Int(n, "n_supports")
	if m.Linear = count == 0; count < 0 || count > int64(len(m.Coefficients)) {
		return nil, fmt.Errorf("%d support vectors: found %d coefficients", count, len(m.Coefficients))
	}
	m.total = int(count)
	m.Counts, m.starts = []int{m.total}, []int{0}
	return m, nil
}
