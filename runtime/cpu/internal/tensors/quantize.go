package tensors

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "QuantizeLinear", Tensor: record.TensorKind{Make: quantizeKernel(false), Constant: []int{1, 2}}},
		record.Record{Op: "DequantizeLinear", Tensor: record.TensorKind{Make: quantizeKernel(true), Constant: []int{1, 2}}},
	)
}

// quantized are the element types that have a kernel here; those of bytes are in package kernel.
type quantized interface{ int16 | uint16 | int32 }

// quantizePass converts one run of numbers with the same scale per work item.
type quantizePass struct {
	scale, zero []float64
	inner       int
	run         func(p *quantizePass, lo, hi int, scale, zero float64)
	x, y        *tensor.Tensor
}

// quantizeKernel quantizes, or goes back. It serves constant scales: one, or one for each place of an axis.
func quantizeKernel(back bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker { return quantizeMaker(s, back) }
}

func quantizeMaker(s *lowering.Step, back bool) record.TensorMaker {
	a := s.Node.Attrs
	scale, zero := s.Constant64(1), s.Constant64(2)
	if len(scale) == 0 || !s.Float32Input(1) || len(s.ConstShape(1)) > 1 || zero != nil && len(zero) != len(scale) ||
		a.Int("block_size", 0) != 0 || a.Int("precision", 0) != 0 {
		return nil
	}
	if zero == nil {
		zero = make([]float64, len(scale))
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		in := d.ShapeOf(s, 0)
		if s.Absent(0) || in == nil || s.Out[0] == nil || d.Shape(s.Out[0]) == nil {
			return nil
		}
		from, to := d.DType(s.In[0]), d.DType(s.Out[0])
		p := &quantizePass{scale: scale, zero: zero}
		switch {
		case back && to != tensor.Float32 || !back && from != tensor.Float32:
			return nil
		case back && (from == tensor.Int8 || from == tensor.Uint8):
			p.run = func(p *quantizePass, lo, hi int, s, z float64) {
				b := bytesOf(p.x).Bytes
				kernel.DequantizeBytes(tensor.Data[float32](p.y)[lo:hi], kernel.Bytes{Data: b.Data[lo:hi], Signed: b.Signed}, float32(s), int(z))
			}
		case back && from == tensor.Int16:
			p.run = dequantize[int16]
		case back && from == tensor.Uint16:
			p.run = dequantize[uint16]
		case back && from == tensor.Int32:
			p.run = dequantize[int32]
		case !back && (to == tensor.Int8 || to == tensor.Uint8):
			p.run = func(p *quantizePass, lo, hi int, s, z float64) {
				b := bytesOf(p.y).Bytes
				kernel.QuantizeBytes(kernel.Bytes{Data: b.Data[lo:hi], Signed: b.Signed}, tensor.Data[float32](p.x)[lo:hi], float32(s), int(z))
			}
		case !back && to == tensor.Int16:
			p.run = func(p *quantizePass, lo, hi int, s, z float64) {
				quantize[int16](p, lo, hi, s, z, math.MinInt16, math.MaxInt16)
			}
		case !back && to == tensor.Uint16:
			p.run = func(p *quantizePass, lo, hi int, s, z float64) {
				quantize[uint16](p, lo, hi, s, z, 0, math.MaxUint16)
			}
		default:
			return nil
		}
		n, _ := tensor.Size(in)
		const item = 1 << 14
		p.inner = item
		if len(scale) > 1 {
			axis, err := ops.Axis(ops.Int(s.Node, "axis"), len(in))
			if err != nil || in[axis] != len(scale) {
				return nil // refused when it is evaluated
			}
			_, p.inner = lowering.Runs(in, axis)
		}
		if n == 0 {
			return nil
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			var ok bool
			if p.x, ok = e.Datum(s.In[0]).(*tensor.Tensor); !ok {
				return e.Fallback(s)
			}
			p.y = e.Datum(s.Out[0]).(*tensor.Tensor)
			return e.Parallel(p, (n+p.inner-1)/p.inner)
		}}
	}
}

func (p *quantizePass) Do(_ *record.Workspace, k int) {
	i := k % len(p.scale)
	p.run(p, k*p.inner, min(p.x.Len(), (k+1)*p.inner), p.scale[i], p.zero[i])
}

func dequantize[T quantized](p *quantizePass, lo, hi int, scale, zero float64) {
	y := tensor.Data[float32](p.y)[lo:hi]
	for i, v := range tensor.Data[T](p.x)[lo:hi] {
		y[i] = float32((float64(v) - zero) * scale)
	}
}

// quantize divides in float32, as the standard does, and rounds ties to even. NaN becomes 0.
func quantize[T quantized](p *quantizePass, lo, hi int, scale, zero, least, most float64) {
	s, y := float32(scale), tensor.Data[T](p.y)[lo:hi]
	for i, v := range tensor.Data[float32](p.x)[lo:hi] {
		q := min(max(math.RoundToEven(float64(v/s))+zero, least), most)
		if q != q {
			q = 0
		}
		y[i] = T(q)
	}
}
