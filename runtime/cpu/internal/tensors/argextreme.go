package tensors

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "ArgMax", Tensor: record.TensorKind{Make: argExtremeKernel(false)}},
		record.Record{Op: "ArgMin", Tensor: record.TensorKind{Make: argExtremeKernel(true)}},
	)
}

// argPass finds the index of the greatest or the least number along the middle one of three axes: the first of equal
// ones, or the last, and the first NaN if there is one.
type argPass struct {
	n, inner    int
	least, last bool
	x           []float32
	y           []int64
}

func argExtremeKernel(least bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if !s.Float32Input(0) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel { return newArgExtreme(d, s, least) }
	}
}

func newArgExtreme(d *lowering.Binding, s *lowering.Step, least bool) *record.TensorKernel {
	shape := d.ShapeOf(s, 0)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", 0), len(shape))
	if shape == nil || err != nil || shape[axis] == 0 || !d.Gives(s, 0, tensor.Int64) {
		return nil // refused when it is evaluated
	}
	outer, inner := lowering.Runs(shape, axis)
	p := &argPass{n: shape[axis], inner: inner, least: least, last: s.Node.Attrs.Bool("select_last_index", false)}
	x, y := lowering.Input[float32](d, s, 0), lowering.Output[int64](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, outer)
	}}
}

func (p *argPass) Do(w *record.Workspace, k int) {
	for i := range p.inner {
		row, at := p.x[k*p.n*p.inner+i:], 0
		best := row[0]
		for lo, hi := range ops.Parts(w.Steps, p.n) { // the first element changes nothing
			for j := lo; j < hi; j++ {
				x := row[j*p.inner]
				if x > best && !p.least || x < best && p.least || p.last && x == best || x != x && best == best {
					best, at = x, j
				}
			}
		}
		p.y[k*p.inner+i] = int64(at)
	}
}
