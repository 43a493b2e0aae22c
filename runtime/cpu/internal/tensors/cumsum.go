package tensors

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "CumSum", Tensor: record.TensorKind{Make: cumSumKernel}})
}

// cumSumPass computes running sums along the middle one of three axes, in float64.
type cumSumPass struct {
	n, inner           int
	exclusive, reverse bool
	x, y               []float32
}

func cumSumKernel(s *lowering.Step) record.TensorMaker {
	if !s.Float32Input(0) || s.Absent(1) {
		return nil
	}
	exclusive, reverse := s.Node.Attrs.Bool("exclusive", false), s.Node.Attrs.Bool("reverse", false)
	return func(d *lowering.Binding) *record.TensorKernel {
		shape := d.ShapeOf(s, 0)
		at, ok := d.Ints(s, 1)
		if shape == nil || !ok || len(at) != 1 || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		axis, err := ops.Axis(at[0], len(shape))
		if err != nil {
			return nil
		}
		outer, inner := lowering.Runs(shape, axis)
		p := &cumSumPass{n: shape[axis], inner: inner, exclusive: exclusive, reverse: reverse}
		if p.n == 0 {
			return nil
		}
		slots := unaryOf(d, s)
		return &record.TensorKernel{Scratch: 2 * inner, Run: func(e record.Execution, _ record.Call) error {
			p.x, p.y = slots.in(e.Frame())
			return e.Parallel(p, outer)
		}}
	}
}

func (p *cumSumPass) Do(w *record.Workspace, k int) {
	size := p.n * p.inner
	x, y := p.x[k*size:(k+1)*size], p.y[k*size:(k+1)*size]
	if p.inner == 1 {
		p.line(w, y, x)
		return
	}
	sums := reinterpret[float64](w.Scratch[:2*p.inner])
	ops.Fill(w.Steps, sums, 0)
	for i := range p.n {
		w.Steps.Step(1)
		if p.reverse {
			i = p.n - 1 - i
		}
		from, to := x[i*p.inner:(i+1)*p.inner], y[i*p.inner:(i+1)*p.inner]
		if p.exclusive {
			for j, v := range ops.All(w.Steps, from) {
				to[j] = float32(sums[j])
				sums[j] += float64(v)
			}
			continue
		}
		for j, v := range ops.All(w.Steps, from) {
			sum := sums[j] + float64(v)
			sums[j], to[j] = sum, float32(sum)
		}
	}
}

// line computes the running sums of contiguous numbers.
func (p *cumSumPass) line(w *record.Workspace, y, x []float32) {
	sum, i, step := 0.0, 0, 1
	if p.reverse {
		i, step = len(x)-1, -1
	}
	for range ops.Each(w.Steps, len(x)) {
		before := sum
		sum += float64(x[i])
		y[i] = float32(sum)
		if p.exclusive {
			y[i] = float32(before)
		}
		i += step
	}
}
