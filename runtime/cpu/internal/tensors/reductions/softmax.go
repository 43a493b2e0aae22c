package reductions

import (
	"math"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

func init() {
	record.Register(
		record.Record{Op: "Softmax",
			Tensor: record.TensorKind{Make: axisKernel(softmaxColumns(false), wideSoftmax(false))}},
		record.Record{Op: "LogSoftmax",
			Tensor: record.TensorKind{Make: axisKernel(softmaxColumns(true), wideSoftmax(true))}},
	)
}

// softmaxColumns computes softmax along columns, or its logarithm. Rows have kernels of their own.
func softmaxColumns(log bool) axisTask[float32] {
	return func(a alongAxis, w *record.Workspace, y, x []float32, k int) {
		if a.inner == 1 {
			f := kernel.Softmax
			if log {
				f = kernel.LogSoftmax
			}
			lo, hi := a.rows(k)
			for r := range hi - lo {
				w.Steps.Step(4 * a.n)
				at := (lo + r) * a.n
				f(y[at:at+a.n], x[at:at+a.n])
			}
			return
		}
		at, n := a.columns(k)
		most, sum := w.Scratch[:n], w.Scratch[axisWidth:axisWidth+n]
		copy(most, x[at:])
		for i := range a.n {
			w.Steps.Step(n)
			kernel.Max(most, most, x[at+i*a.inner:][:n])
		}
		clear(sum)
		var part [axisWidth]float32
		for i := range a.n {
			w.Steps.Step(8 * n)
			y, e := y[at+i*a.inner:][:n], part[:n]
			kernel.Sub(y, x[at+i*a.inner:][:n], most)
			kernel.Exp(e, y)
			kernel.Add(sum, sum, e)
			if !log {
				copy(y, e)
			}
		}
		if log {
			kernel.Log(sum, sum)
		} else {
			kernel.DivIntoS(sum, sum, 1)
		}
		for i := range a.n {
			w.Steps.Step(n)
			if y := y[at+i*a.inner:][:n]; log {
				kernel.Sub(y, y, sum)
			} else {
				kernel.Mul(y, y, sum)
			}
		}
	}
}

// wideSoftmax computes softmax in float64, or its logarithm.
func wideSoftmax(log bool) axisTask[float64] {
	return func(a alongAxis, w *record.Workspace, y, x []float64, k int) {
		if a.inner == 1 {
			lo, hi := a.rows(k)
			for r := range hi - lo {
				at := (lo + r) * a.n
				wideSoftmaxRow(w, y[at:at+a.n], x[at:at+a.n], log)
			}
			return
		}
		at, n := a.columns(k)
		var mosts, sums [axisWidth]float64
		most, sum := mosts[:n], sums[:n]
		copy(most, x[at:])
		for i := range a.n {
			w.Steps.Step(n)
			for j, v := range x[at+i*a.inner:][:n] {
				most[j] = max(most[j], v)
			}
		}
		for i := range a.n {
			w.Steps.Step(8 * n)
			y := y[at+i*a.inner:][:n]
			for j, v := range x[at+i*a.inner:][:n] {
				e := math.Exp(v - most[j])
				if sum[j] += e; log {
					e = v - most[j]
				}
				y[j] = e
			}
		}
		for j := range sum {
			if log {
				sum[j] = math.Log(sum[j])
			}
		}
		for i := range a.n {
			w.Steps.Step(n)
			for j, s := range sum {
				if log {
					y[at+i*a.inner+j] -= s
				} else {
					y[at+i*a.inner+j] /= s
				}
			}
		}
	}
}

func wideSoftmaxRow(w *record.Workspace, y, x []float64, log bool) {
	most, sum := x[0], 0.0
	for lo, hi := range ops.Blocks(w.Steps, len(x), tensors.ItemNumbers) {
		for _, v := range x[lo:hi] {
			most = max(most, v)
		}
	}
	for lo, hi := range ops.Blocks(w.Steps, len(x), logBlock) {
		w.Steps.Step(8 * (hi - lo))
		y := y[lo:hi]
		for i, v := range x[lo:hi] {
			e := math.Exp(v - most)
			if sum += e; log {
				e = v - most
			}
			y[i] = e
		}
	}
	if log {
		sum = math.Log(sum)
	}
	for lo, hi := range ops.Blocks(w.Steps, len(x), tensors.ItemNumbers) {
		if y := y[lo:hi]; log {
			for i := range y {
				y[i] -= sum
			}
		} else {
			for i := range y {
				y[i] /= sum
			}
		}
	}
}
