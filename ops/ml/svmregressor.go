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
		n := c.Node
		k, err := kernelOf(n)
		if err != nil {
			return nil, err
		}
		v, rows, cols, err := matrix(c, in)
		if err != nil {
			return nil, err
		}
		coefs, rho, vectors := n.Attrs.Floats("coefficients", nil), n.Attrs.Floats("rho", nil),
			n.Attrs.Floats("support_vectors", nil)
		count := ops.Int(n, "n_supports")
		if len(rho) != 1 {
			return nil, fmt.Errorf("rho: expected 1 number, found %d", len(rho))
		}
		if count < 0 || count > int64(len(coefs)) || count == 0 && len(coefs) != cols || count > 0 &&
			(len(coefs) != int(count) || len(vectors) != int(count)*cols) {
			return nil, fmt.Errorf("%d support vectors of %d features: found %d numbers and %d coefficients", count,
				cols, len(vectors), len(coefs))
		}
		out := ops.Make[float64](c, rows)
		for r := range len(out) {
			c.Step(1)
			x := v[r*cols : (r+1)*cols]
			if count == 0 {
				out[r] = dot(c, x, coefs) + rho[0]
			} else {
				out[r] = dot(c, k.all(c, x, vectors, int(count)), coefs) + rho[0]
			}
			switch {
			case ops.Int(n, "one_class") == 0:
			case out[r] > 0:
				out[r] = 1
			default:
				out[r] = -1
			}
			out[r] = finish(c, ops.Str(n, "post_transform"), out[r:r+1], alone)[0]
		}
		return ops.One(ops.Real(c, tensor.Float32, out, rows, 1))
	},
	Along: alongSamples, Tol: ir.Summing,
})
