package ml

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Normalizer divides each sample by its norm.
var Normalizer = ops.Register(&ir.Op{
	Domain: Domain, Name: "Normalizer", Since: 1,
	Doc: "Each sample (a row, or a vector as a whole) divided by its largest element (MAX), the sum of absolute " +
		"values (L1) or " +
		"its Euclidean norm (L2), as float32. Samples with a norm of 0 stay.",
	In: ops.Sig("X:T[...]"), Out: ops.Sig("Y:float32[...]"), Elems: elems("T", numeric),
	Attrs: []ir.AttrSpec{ops.ChoiceSpec("norm", "which norm", "MAX", "L1", "L2")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		if x.Rank() == 0 {
			return nil, fmt.Errorf("input 0 (X): expected samples by features, found %s", x)
		}
		v, rows, cols, err := matrix(c, in)
		if err != nil {
			return nil, err
		}
		for r := range rows {
			c.Step(1)
			row := v[r*cols : (r+1)*cols]
			if d := norm(c, ops.Str(c.Node, "norm"), row); d != 0 {
				for i := range ops.Each(c, len(row)) {
					row[i] /= d
				}
			}
		}
		return ops.One(ops.Real(c, tensor.Float32, v, x.Shape()...))
	},
	Along: alongSamples, NoGradient: fitted, Tol: ir.Summing,
})

func norm(c *ir.EvalCtx, kind string, v []float64) float64 {
	sum := 0.0
	switch kind {
	case "L1":
		for _, x := range ops.All(c, v) {
			sum += math.Abs(x)
		}
	case "L2":
		for _, x := range ops.All(c, v) {
			sum += x * x
		}
		return math.Sqrt(sum)
	default:
		if len(v) > 0 {
			return top(c, v)
		}
	}
	return sum
}
