package reductions

import (
	"math"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "LpNormalization", Tensor: record.TensorKind{Make: lpNormalizationKernel}})
}

func lpNormalizationKernel(s *lowering.Step) record.TensorMaker {
	switch s.Node.Attrs.Int("p", 2) {
	case 1:
		return axisKernel(lpNormalize32(false), lpNormalize(false))(s)
	case 2:
		return axisKernel(lpNormalize32(true), lpNormalize(true))(s)
	}
	return nil // the evaluation reports the error
}

// lpNormalize32 is lpNormalize for float32, with float64 sums.
func lpNormalize32(squares bool) axisTask[float32] {
	return func(a alongAxis, w *record.Workspace, y, x []float32, k int) {
		if a.inner == 1 {
			lo, hi := a.rows(k)
			for r := range hi - lo {
				lpNormalizeRow32(w, y[(lo+r)*a.n:][:a.n], x[(lo+r)*a.n:][:a.n], squares)
			}
			return
		}
		at, n := a.columns(k)
		sum, part := w.Scratch[:n], w.Scratch[axisWidth:axisWidth+n]
		clear(sum)
		for i := range a.n {
			w.Steps.Step(n)
			if x := x[at+i*a.inner:][:n]; squares {
				kernel.Square(part, x)
			} else {
				kernel.Abs(part, x)
			}
			kernel.Add(sum, sum, part)
		}
		for j, v := range sum {
			sum[j] = float32(divisor(float64(v), squares))
		}
		for i := range a.n {
			w.Steps.Step(n)
			kernel.Div(y[at+i*a.inner:][:n], x[at+i*a.inner:][:n], sum)
		}
	}
}

func lpNormalizeRow32(w *record.Workspace, y, x []float32, squares bool) {
	total := 0.0
	if squares {
		for lo, hi := range ops.Blocks(w.Steps, len(x), tensors.ItemNumbers) {
			total += kernel.Squares(x[lo:hi], 0)
		}
	} else {
		for lo, hi := range ops.Blocks(w.Steps, len(x), 2*axisWidth) {
			part := w.Scratch[:hi-lo]
			kernel.Abs(part, x[lo:hi])
			total = kernel.AddSum(total, part)
		}
	}
	by := float32(divisor(total, squares))
	for lo, hi := range ops.Blocks(w.Steps, len(x), tensors.ItemNumbers) {
		kernel.DivS(y[lo:hi], x[lo:hi], by)
	}
}

// lpNormalize divides float64 numbers by the sum of absolute values along an axis, or by the root of the sum of
// squares. Where that is 0, the numbers do not change.
func lpNormalize(squares bool) axisTask[float64] {
	return func(a alongAxis, w *record.Workspace, y, x []float64, k int) {
		if a.inner == 1 {
			lo, hi := a.rows(k)
			for r := range hi - lo {
				lpNormalizeRow(w, y[(lo+r)*a.n:][:a.n], x[(lo+r)*a.n:][:a.n], squares)
			}
			return
		}
		at, n := a.columns(k)
		var sums [axisWidth]float64
		sum := sums[:n]
		for i := range a.n {
			w.Steps.Step(n)
			for j, v := range x[at+i*a.inner:][:n] {
				if squares {
					sum[j] += v * v
				} else {
					sum[j] += math.Abs(v)
				}
			}
		}
		for j, v := range sum {
			sum[j] = divisor(v, squares)
		}
		for i := range a.n {
			w.Steps.Step(n)
			y := y[at+i*a.inner:][:n]
			for j, v := range x[at+i*a.inner:][:n] {
				y[j] = v / sum[j]
			}
		}
	}
}

func lpNormalizeRow(w *record.Workspace, y, x []float64, squares bool) {
	total := 0.0
	for lo, hi := range ops.Blocks(w.Steps, len(x), tensors.ItemNumbers) {
		x := x[lo:hi]
		if squares {
			a, b := 0.0, 0.0 // independent sums, for parallel execution
			for len(x) >= 2 {
				a += x[0] * x[0]
				b += float64(x[1]) * float64(x[1])
				x = x[2:]
			}
			if len(x) > 0 {
				a += x[0] * x[0]
			}
			total += a + b
			continue
		}
		for _, v := range x {
			total += math.Abs(v)
		}
	}
	by := divisor(total, squares)
	for lo, hi := range ops.Blocks(w.Steps, len(x), tensors.ItemNumbers) {
		y := y[lo:hi]
		for i, v := range x[lo:hi] {
			y[i] = v / by
		}
	}
}

// divisor returns the norm for a sum, or 1 for 0.
func divisor(sum float64, squares bool) float64 {
	if squares {
		sum = math.Sqrt(sum)
	}
	if sum == 0 {
		return 1
	}
	return sum
}
