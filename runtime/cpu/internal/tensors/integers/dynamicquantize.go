package integers

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "DynamicQuantizeLinear", Tensor: record.TensorKind{Make: dynamicQuantizeKernel}})
}

// dynamicPass computes DynamicQuantizeLinear: first the range of each part of the input, then its bytes.
type dynamicPass struct {
	x      []float32
	y      []byte
	lo, hi []float32 // per part
	scale  float32
	zero   int
}

// DynamicPart is the number of elements of a work item.
const DynamicPart = 1 << 12

func dynamicQuantizeKernel(s *lowering.Step) record.TensorMaker {
	if !s.Float32Input(0) || len(s.Node.Outputs) != 3 || slices.Contains(s.Node.Outputs, nil) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		in := d.ShapeOf(s, 0)
		if in == nil || !d.Gives(s, 0, tensor.Uint8) || !d.Gives(s, 1, tensor.Float32) || !d.Gives(s, 2, tensor.Uint8) {
			return nil
		}
		n, _ := tensor.Size(in)
		if n == 0 {
			return nil
		}
		parts := (n + DynamicPart - 1) / DynamicPart
		p := &dynamicPass{lo: lowering.Make[float32](d, parts), hi: lowering.Make[float32](d, parts)}
		x, y := lowering.Input[float32](d, s, 0), lowering.Output[uint8](d, s, 0)
		scale, zero := lowering.Output[float32](d, s, 1), lowering.Output[uint8](d, s, 2)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			p.x, p.y = x.In(f), y.In(f)
			if err := e.Parallel((*dynamicRange)(p), parts); err != nil {
				return err
			}
			lo, hi := float32(0), float32(0)
			for i := range parts {
				lo, hi = min(lo, p.lo[i]), max(hi, p.hi[i])
			}
			p.scale = (hi - lo) / 255
			if !(p.scale > 0) || math.IsInf(float64(p.scale), 0) {
				return e.Fallback(s) // all are 0, or a number is not finite
			}
			p.zero = int(math.RoundToEven(float64(min(max(0-lo/p.scale, 0), 255))))
			scale.In(f)[0], zero.In(f)[0] = p.scale, uint8(p.zero)
			return e.Parallel(p, parts)
		}}
	}
}

type dynamicRange dynamicPass

func (p *dynamicRange) Do(_ *record.Workspace, k int) {
	p.lo[k], p.hi[k] = kernel.Extremes(p.x[k*DynamicPart : min(len(p.x), (k+1)*DynamicPart)])
}

func (p *dynamicPass) Do(_ *record.Workspace, k int) {
	from, to := k*DynamicPart, min(len(p.x), (k+1)*DynamicPart)
	kernel.QuantizeBytes(kernel.Bytes{Data: p.y[from:to]}, p.x[from:to], p.scale, p.zero)
}
