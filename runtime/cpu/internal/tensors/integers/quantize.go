package integers

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
	record.Register(
		record.Record{Op: "QuantizeLinear", Tensor: record.TensorKind{Make: quantizeKernel(false), Constant: []int{1, 2}}},
		record.Record{Op: "DequantizeLinear", Tensor: record.TensorKind{Make: quantizeKernel(true), Constant: []int{1, 2}}},
	)
}

// quantized are the element types with a kernel here; those of bytes are in package kernel.
type quantized interface{ int16 | uint16 | int32 }

// quantizePass converts one run of elements with the same scale per work item: numbers to elements of size bytes, or
// the reverse.
type quantizePass struct {
	scale, zero []float64
	n, inner    int
	size        int
	convert     quantizer
	numbers     []float32
	elements    []byte
}

// quantizer converts numbers to elements, or the reverse.
type quantizer func(numbers []float32, elements []byte, scale, zero float64)

// quantizeKernel quantizes, or dequantizes if back is set. It supports fixed scales: one, or one per index of an
// axis.
func quantizeKernel(back bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker { return quantizeMaker(s, back) }
}

func quantizeMaker(s *lowering.Step, back bool) record.TensorMaker {
	a := s.Node.Attrs
	scale, zero := record.Numbers64(s, 1), record.Numbers64(s, 2)
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
		numbers, elements := s.In[0], s.Out[0]
		if back {
			numbers, elements = elements, numbers
		}
		if d.DType(numbers) != tensor.Float32 {
			return nil
		}
		convert := quantizerOf(d.DType(elements), back)
		if convert == nil {
			return nil
		}
		return newQuantize(d, s, scale, zero, numbers, elements, convert)
	}
}

// quantizerOf returns the quantizer for a type, or its inverse if back is set, or nil for other types.
func quantizerOf(t tensor.DType, back bool) quantizer {
	switch {
	case t == tensor.Int8 && back:
		return dequantizeInt8
	case t == tensor.Int8:
		return quantizeInt8
	case t == tensor.Uint8 && back:
		return dequantizeUint8
	case t == tensor.Uint8:
		return quantizeUint8
	case t == tensor.Int16 && back:
		return dequantize[int16]
	case t == tensor.Int16:
		return quantizeInt16
	case t == tensor.Uint16 && back:
		return dequantize[uint16]
	case t == tensor.Uint16:
		return quantizeUint16
	case t == tensor.Int32 && back:
		return dequantize[int32]
	}
	return nil
}

func newQuantize(d *lowering.Binding, s *lowering.Step, scale, zero []float64, numbers, elements *lowering.Value,
	convert quantizer) *record.TensorKernel {
	in := d.ShapeOf(s, 0)
	n, _ := tensor.Size(in)
	p := &quantizePass{scale: scale, zero: zero, n: n, inner: 1 << 14, convert: convert}
	p.size = tensor.ByteSize(d.DType(elements), 1)
	if len(scale) > 1 {
		axis, err := ops.Axis(ops.Int(s.Node, "axis"), len(in))
		if err != nil || in[axis] != len(scale) {
			return nil // the evaluation reports the error
		}
		_, p.inner = lowering.Runs(in, axis)
	}
	if n == 0 {
		return nil
	}
	x, q := lowering.SlotOf[float32](d, numbers), lowering.BytesOf(d, elements)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.numbers, p.elements = x.In(f), q.In(f)
		return e.Parallel(p, (n+p.inner-1)/p.inner)
	}}
}

func (p *quantizePass) Do(w *record.Workspace, k int) {
	i, from, to := k%len(p.scale), k*p.inner, min(p.n, (k+1)*p.inner)
	for lo, hi := range ops.Blocks(w.Steps, to-from, tensors.ItemNumbers) {
		lo, hi := from+lo, from+hi
		p.convert(p.numbers[lo:hi], p.elements[lo*p.size:hi*p.size], p.scale[i], p.zero[i])
	}
}

func quantizeInt8(x []float32, y []byte, scale, zero float64) {
	kernel.QuantizeBytes(kernel.Bytes{Data: y, Signed: true}, x, float32(scale), int(zero))
}

func quantizeUint8(x []float32, y []byte, scale, zero float64) {
	kernel.QuantizeBytes(kernel.Bytes{Data: y}, x, float32(scale), int(zero))
}

func quantizeInt16(x []float32, y []byte, scale, zero float64) {
	quantize(tensors.Reinterpret[int16](y), x, scale, zero, math.MinInt16, math.MaxInt16)
}

func quantizeUint16(x []float32, y []byte, scale, zero float64) {
	quantize(tensors.Reinterpret[uint16](y), x, scale, zero, 0, math.MaxUint16)
}

func dequantizeInt8(y []float32, x []byte, scale, zero float64) {
	kernel.DequantizeBytes(y, kernel.Bytes{Data: x, Signed: true}, float32(scale), int(zero))
}

func dequantizeUint8(y []float32, x []byte, scale, zero float64) {
	kernel.DequantizeBytes(y, kernel.Bytes{Data: x}, float32(scale), int(zero))
}

func dequantize[T quantized](y []float32, x []byte, scale, zero float64) {
	for i, v := range tensors.Reinterpret[T](x) {
		y[i] = float32((float64(v) - zero) * scale)
	}
}

// quantize divides in float32, as the standard does, and rounds ties to even. NaN becomes 0.
func quantize[T quantized](y []T, x []float32, scale, zero, least, most float64) {
	s := float32(scale)
	for i, v := range x {
		q := min(max(math.RoundToEven(float64(v/s))+zero, least), most)
		if q != q {
			q = 0
		}
		y[i] = T(q)
	}
}
