package rows

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// longRow is the maximum length of rows that are normalized at once, and the size of the parts of longer ones,
// between which a run can end. Sums over longer rows are sums of the parts' sums, in float64.
const longRow = 1 << 18

// longMoments returns the mean and the biased variance of a long row.
func longMoments(c *ir.EvalCtx, x []float32) (mean, variance float64) {
	for lo, hi := range ops.Blocks(c, len(x), longRow) {
		mean += kernel.Sum64(x[lo:hi])
	}
	mean /= float64(len(x))
	return mean, longSquares(c, x, mean) / float64(len(x))
}

// longSquares is kernel.Squares of a long row.
func longSquares(c *ir.EvalCtx, x []float32, mean float64) (sum float64) {
	for lo, hi := range ops.Blocks(c, len(x), longRow) {
		sum += kernel.Squares(x[lo:hi], mean)
	}
	return sum
}

// longNormalize is kernel.Normalize of a long row.
func longNormalize(c *ir.EvalCtx, y, x []float32, mean, inv float64, scale, shift []float32) {
	part := func(v []float32, lo, hi int) []float32 {
		if v == nil {
			return nil
		}
		return v[lo:hi]
	}
	for lo, hi := range ops.Blocks(c, len(x), longRow) {
		kernel.Normalize(y[lo:hi], x[lo:hi], mean, inv, part(scale, lo, hi), part(shift, lo, hi))
	}
}

// Normal is kernel.Normal, in parts for many numbers.
func Normal(c *ir.EvalCtx, x []float32, eps float64) (mean, inv float64) {
	if c.Step(len(x)); len(x) <= longRow {
		return kernel.Normal(x, eps)
	}
	mean, variance := longMoments(c, x)
	return mean, 1 / math.Sqrt(variance+eps)
}
