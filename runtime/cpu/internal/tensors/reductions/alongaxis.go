package reductions

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// alongAxis is a tensor as rows of n numbers along an axis, with stride inner: columns of matrices, or rows if inner
// is 1.
type alongAxis struct{ outer, n, inner int }

// axisWidth is the number of columns that are computed together.
const axisWidth = 256

// alongAxisOf returns the axis in the step's attribute, for a tensor of type T whose result has the same type and
// shape. It returns false otherwise, and for a tensor without numbers.
func alongAxisOf(d *lowering.Binding, s *lowering.Step, dtype tensor.DType) (a alongAxis, ok bool) {
	shape := d.ShapeOf(s, 0)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(shape))
	if shape == nil || err != nil || tensors.Product(shape) == 0 || !d.Typed(s, 0, dtype) || !d.Gives(s, 0, dtype) {
		return a, false
	}
	a.n = shape[axis]
	a.outer, a.inner = lowering.Runs(shape, axis)
	return a, true
}

// per returns the number of rows per work item if inner is 1.
func (a alongAxis) per() int { return max(1, tensors.ReduceItem/a.n) }

// items returns the number of work items.
func (a alongAxis) items() int {
	if a.inner == 1 {
		return (a.outer + a.per() - 1) / a.per()
	}
	return a.outer * ((a.inner + axisWidth - 1) / axisWidth)
}

// rows returns the rows of item k, from lo to hi-1, if inner is 1.
func (a alongAxis) rows(k int) (lo, hi int) { return k * a.per(), min(a.outer, (k+1)*a.per()) }

// columns returns the offset of the first number of item k, and the number of columns.
func (a alongAxis) columns(k int) (at, width int) {
	blocks := (a.inner + axisWidth - 1) / axisWidth
	from := k % blocks * axisWidth
	return k/blocks*a.n*a.inner + from, min(axisWidth, a.inner-from)
}

// axisKernel makes kernels along an axis, for float32 and for float64.
func axisKernel(narrow axisTask[float32], wide axisTask[float64]) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if s.Absent(0) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			if d.Typed(s, 0, tensor.Float64) {
				return newAxisPass(d, s, tensor.Float64, wide)
			}
			return newAxisPass(d, s, tensor.Float32, narrow)
		}
	}
}

// axisTask computes work item k.
type axisTask[T float32 | float64] func(a alongAxis, w *record.Workspace, y, x []T, k int)

type axisPass[T float32 | float64] struct {
	alongAxis
	task axisTask[T]
	x, y []T
}

func newAxisPass[T float32 | float64](d *lowering.Binding, s *lowering.Step, dtype tensor.DType,
	task axisTask[T]) *record.TensorKernel {
	a, ok := alongAxisOf(d, s, dtype)
	if !ok {
		return nil
	}
	p := &axisPass[T]{alongAxis: a, task: task}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	return &record.TensorKernel{Scratch: 2 * axisWidth, Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, p.items())
	}}
}

func (p *axisPass[T]) Do(w *record.Workspace, k int) { p.task(p.alongAxis, w, p.y, p.x, k) }
