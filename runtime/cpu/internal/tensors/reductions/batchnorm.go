package reductions

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "BatchNormalization",
		Tensor: record.TensorKind{Make: batchNormKernel, Constant: []int{1, 2, 3, 4}}})
}

// batchNormKernel scales and shifts each channel. The statistics must be fixed.
func batchNormKernel(s *lowering.Step) record.TensorMaker {
	scale, shift := record.Numbers64(s, 1), record.Numbers64(s, 2)
	mean, variance := record.Numbers64(s, 3), record.Numbers64(s, 4)
	c := len(scale)
	if c == 0 || len(shift) != c || len(mean) != c || len(variance) != c || s.Node.Attrs.Bool("training_mode", false) ||
		len(s.Node.Outputs) > 1 {
		return nil
	}
	eps := s.Node.Attrs.Float("epsilon", float64(float32(1e-5)))
	factors := record.Keep(s, []int{1, 2, 3, 4}, nil,
		func() [2][]float32 { return [2][]float32{make([]float32, c), make([]float32, c)} },
		func(f [2][]float32) {
			for i := range c {
				k := scale[i] / math.Sqrt(variance[i]+eps)
				f[0][i], f[1][i] = float32(k), float32(shift[i]-mean[i]*k)
			}
		})
	return func(d *lowering.Binding) *record.TensorKernel {
		in := d.ShapeOf(s, 0)
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || len(in) < 2 || in[1] != c {
			return nil
		}
		_, inner := lowering.Runs(in, 1)
		p := &channelPass{scale: factors[0], shift: factors[1], inner: inner}
		slots := tensors.UnaryOf(d, s)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			p.x, p.y = slots.In(e.Frame())
			return e.Parallel(p, in[0]*c)
		}}
	}
}

type channelPass struct {
	scale, shift []float32
	inner        int
	x, y         []float32
}

func (p *channelPass) Do(w *record.Workspace, k int) {
	c := k % len(p.scale)
	y, x := p.y[k*p.inner:(k+1)*p.inner], p.x[k*p.inner:(k+1)*p.inner]
	for lo, hi := range ops.Blocks(w.Steps, p.inner, tensors.ItemNumbers) {
		kernel.ScaleShift(y[lo:hi], x[lo:hi], p.scale[c], p.shift[c])
	}
}
