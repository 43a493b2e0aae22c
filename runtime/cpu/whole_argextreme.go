package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	registerKernels(map[string]func(s *lowering.Step) kernelMaker{"ArgMax": argExtremeKernel, "ArgMin": argExtremeKernel})
}

// argPass finds the places of the greatest or least numbers along the middle one of three axes: of equal ones the first, or the
// last, and the first NaN where there is one.
type argPass struct {
	n, inner    int
	least, last bool
	x           []float32
	y           []int64
}

func argExtremeKernel(s *lowering.Step) kernelMaker {
	if !s.Float32Input(0) {
		return nil
	}
	at := s.Node.Attrs.Int("axis", 0)
	return func(d *binding) *boundKernel {
		shape := d.ShapeOf(s, 0)
		axis, err := ops.Axis(at, len(shape))
		if shape == nil || err != nil || shape[axis] == 0 || !d.Gives(s, 0, tensor.Int64) {
			return nil // refused when it is evaluated
		}
		outer, inner := lowering.Runs(shape, axis)
		p := &argPass{n: shape[axis], inner: inner, least: s.Node.Op.Name == "ArgMin", last: s.Node.Attrs.Bool("select_last_index", false)}
		return &boundKernel{run: func(e *executable, _ *unit) error {
			p.x, p.y = e.buf[s.In[0].ID], tensor.Data[int64](e.datum(s.Out[0]).(*tensor.Tensor))
			return e.parallel(p, outer)
		}}
	}
}

func (p *argPass) ticket(_ *worker, k int) {
	for i := range p.inner {
		row, at := p.x[k*p.n*p.inner+i:], 0
		best := row[0]
		for j := 1; j < p.n; j++ {
			x := row[j*p.inner]
			if x > best && !p.least || x < best && p.least || p.last && x == best || x != x && best == best {
				best, at = x, j
			}
		}
		p.y[k*p.inner+i] = int64(at)
	}
}
