package reductions

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

func init() {
	record.Register(record.Record{Op: "Hardmax",
		Tensor: record.TensorKind{Make: axisKernel(hardmax[float32], hardmax[float64])}})
}

// hardmaxPart is the number of elements of a row between two checks of the context.
const hardmaxPart = 1 << 16

// hardmax sets the first of the greatest numbers along an axis to 1, and all others to 0. NaN is greater than all
// numbers.
func hardmax[T float32 | float64](a alongAxis, w *record.Workspace, y, x []T, k int) {
	if a.inner == 1 {
		lo, hi := a.rows(k)
		for r := range hi - lo {
			x, y := x[(lo+r)*a.n:][:a.n], y[(lo+r)*a.n:][:a.n]
			best, at := x[0], 0
			for from := 0; from < a.n; from += hardmaxPart { // rows may be long
				to := min(from+hardmaxPart, a.n)
				w.Steps.Step(2 * (to - from))
				for i, v := range x[from:to] {
					if v > best {
						best, at = v, from+i
					}
				}
				clear(y[from:to])
			}
			y[at] = 1
		}
		return
	}
	first, n := a.columns(k)
	var best [axisWidth]T
	var at [axisWidth]int
	copy(best[:n], x[first:])
	for i := range a.n {
		w.Steps.Step(2 * n)
		clear(y[first+i*a.inner:][:n])
		for j, v := range x[first+i*a.inner:][:n] {
			if v > best[j] {
				best[j], at[j] = v, i
			}
		}
	}
	for j, i := range at[:n] {
		y[first+i*a.inner+j] = 1
	}
}
