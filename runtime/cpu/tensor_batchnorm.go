package cpu

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	register(record{op: "BatchNormalization", tensor: tensorKind{make: batchNormKernel, constant: []int{1, 2, 3, 4}}})
}

// batchNormKernel scales and shifts each channel, statistics being constants.
func batchNormKernel(s *lowering.Step) tensorMaker {
	scale, shift, mean, variance := s.Constant64(1), s.Constant64(2), s.Constant64(3), s.Constant64(4)
	c := len(scale)
	if c == 0 || len(shift) != c || len(mean) != c || len(variance) != c || s.Node.Attrs.Bool("training_mode", false) || len(s.Node.Outputs) > 1 {
		return nil
	}
	eps := s.Node.Attrs.Float("epsilon", float64(float32(1e-5)))
	a, b := make([]float32, c), make([]float32, c)
	for i := range a {
		k := scale[i] / math.Sqrt(variance[i]+eps)
		a[i], b[i] = float32(k), float32(shift[i]-mean[i]*k)
	}
	return func(d *lowering.Binding) *tensorKernel {
		in := d.ShapeOf(s, 0)
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || len(in) < 2 || in[1] != c {
			return nil
		}
		_, inner := lowering.Runs(in, 1)
		p := &channelPass{scale: a, shift: b, inner: inner}
		return &tensorKernel{run: func(e execution, _ tensorCall) error {
			p.x, p.y = e.floats(s.In[0]), e.floats(s.Out[0])
			return e.parallel(p, in[0]*c)
		}}
	}
}

type channelPass struct {
	scale, shift []float32
	inner        int
	x, y         []float32
}

func (p *channelPass) do(_ *workspace, k int) {
	c := k % len(p.scale)
	kernel.ScaleShift(p.y[k*p.inner:(k+1)*p.inner], p.x[k*p.inner:(k+1)*p.inner], p.scale[c], p.shift[c])
}
