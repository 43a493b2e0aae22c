package reductions

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "CumSum", Tensor: record.TensorKind{Make: cumSumKernel}})
}

// cumSumPass computes running sums along the middle one of three axes, in type A, which is float64 for floats.
type cumSumPass[T, A reduced] struct {
	n, inner           int
	exclusive, reverse bool
	x, y               []T
}

func cumSumKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		switch dtype := d.DType(s.In[0]); {
		case !d.Typed(s, 0, dtype) || !d.Gives(s, 0, dtype):
		case dtype == tensor.Float32:
			return newCumSum[float32, float64](d, s)
		case dtype == tensor.Float64:
			return newCumSum[float64, float64](d, s)
		case dtype == tensor.Int32:
			return newCumSum[int32, int64](d, s)
		case dtype == tensor.Int64:
			return newCumSum[int64, int64](d, s)
		}
		return nil
	}
}

func newCumSum[T, A reduced](d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	shape := d.ShapeOf(s, 0)
	at, ok := d.Ints(s, 1)
	if shape == nil || !ok || len(at) != 1 {
		return nil
	}
	axis, err := ops.Axis(at[0], len(shape))
	if err != nil {
		return nil
	}
	outer, inner := lowering.Runs(shape, axis)
	p := &cumSumPass[T, A]{n: shape[axis], inner: inner, exclusive: s.Node.Attrs.Bool("exclusive", false),
		reverse: s.Node.Attrs.Bool("reverse", false)}
	if p.n == 0 {
		return nil
	}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	return &record.TensorKernel{Scratch: 2 * inner, Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, outer)
	}}
}

func (p *cumSumPass[T, A]) Do(w *record.Workspace, k int) {
	size := p.n * p.inner
	x, y := p.x[k*size:(k+1)*size], p.y[k*size:(k+1)*size]
	if p.inner == 1 {
		p.line(w, y, x)
		return
	}
	sums := tensors.Reinterpret[A](w.Scratch[:2*p.inner])
	ops.Fill(w.Steps, sums, 0)
	for i := range p.n {
		w.Steps.Step(1)
		if p.reverse {
			i = p.n - 1 - i
		}
		from, to := x[i*p.inner:(i+1)*p.inner], y[i*p.inner:(i+1)*p.inner]
		if p.exclusive {
			for j, v := range ops.All(w.Steps, from) {
				to[j] = T(sums[j])
				sums[j] += A(v)
			}
			continue
		}
		for j, v := range ops.All(w.Steps, from) {
			sum := sums[j] + A(v)
			sums[j], to[j] = sum, T(sum)
		}
	}
}

// line computes the running sums of contiguous numbers.
func (p *cumSumPass[T, A]) line(w *record.Workspace, y, x []T) {
	sum, i, step := A(0), 0, 1
	if p.reverse {
		i, step = len(x)-1, -1
	}
	for range ops.Each(w.Steps, len(x)) {
		before := sum
		sum += A(x[i])
		y[i] = T(sum)
		if p.exclusive {
			y[i] = T(before)
		}
		i += step
	}
}
