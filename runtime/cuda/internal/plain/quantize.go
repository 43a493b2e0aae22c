package plain

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "QuantizeLinear", Takes: quantizes, Build: quantize},
		record.Record{Op: "DequantizeLinear", Takes: quantizes, Build: dequantize})
}

// quantizes accepts all versions: newer ones only add types and attributes.
func quantizes(s *lowering.Step) bool { return s.Rows == nil }

// part is a box of the data whose elements have scales at even distances.
type part struct {
	shape       []int
	data, scale kernel.Operand // without buffers and types
}

// parts divides data of a shape by their scales: one scale for all, one per index of an axis, or one per block along
// it.
func parts(n *ir.Node, shape, scale []int) ([]part, bool) {
	if len(scale) == 0 || len(scale) == 1 && scale[0] == 1 {
		return []part{{shape: []int{record.Size(shape)}, data: kernel.Operand{Strides: []int{1}}, scale: kernel.Operand{Strides: []int{0}}}}, true
	}
	a, err := ops.Axis(n.Attrs.Int("axis", 1), len(shape))
	if err != nil {
		return nil, false
	}
	outer, along, inner := record.Around(shape, a)
	block := int(n.Attrs.Int("block_size", 0))
	if block == 0 {
		if len(scale) != 1 || scale[0] != along {
			return nil, false
		}
		return []part{{shape: []int{outer, along, inner}, data: kernel.Operand{Strides: []int{along * inner, inner, 1}},
			scale: kernel.Operand{Strides: []int{0, 1, 0}}}}, true
	}
	if block < 0 {
		return nil, false
	}
	blocks := (along + block - 1) / block
	want := slices.Clone(shape)
	if want[a] = blocks; !slices.Equal(want, scale) {
		return nil, false
	}
	whole := along / block
	all := []part{{shape: []int{outer, whole, block, inner},
		data:  kernel.Operand{Strides: []int{along * inner, block * inner, inner, 1}},
		scale: kernel.Operand{Strides: []int{blocks * inner, inner, 0, 1}}}}
	if rest := along % block; rest > 0 {
		all = append(all, part{shape: []int{outer, rest, inner},
			data:  kernel.Operand{Offset: whole * block * inner, Strides: []int{along * inner, inner, 1}},
			scale: kernel.Operand{Offset: whole * inner, Strides: []int{blocks * inner, 0, 1}}})
	}
	return all, true
}

// plainly returns a value in a type that kernels support, converted if necessary.
func plainly(b *record.Builder, v *lowering.Value) (kernel.Operand, bool) {
	t := b.Binding.DType(v)
	if computed(t) {
		return kernel.Operand{Buffer: b.Buffer(v), Type: t}, true
	}
	n := record.Size(b.Binding.Shape(v))
	to := b.Scratch(4 * n)
	calls, ok := kernel.Narrow(n, false, kernel.Up, to, tensor.Float32, b.Buffer(v), t)
	return kernel.Operand{Buffer: to, Type: tensor.Float32}, launches(b, calls, ok)
}

// scaled calls f for the parts of a step's data, with their operands.
func scaled(b *record.Builder, s *lowering.Step, out kernel.Operand,
	f func(shape []int, out, x, scale, zero kernel.Operand) ([]kernel.Call, bool)) bool {
	d := b.Binding
	shape, scales := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
	list, ok := parts(s.Node, shape, scales)
	if !ok || len(s.In) > 2 && !s.Absent(2) && record.Size(d.ShapeOf(s, 2)) != record.Size(scales) {
		return false
	}
	if record.Size(shape) == 0 {
		return true
	}
	var in [3]kernel.Operand
	for i := range in {
		if i < 2 || !s.Absent(2) {
			if in[i], ok = plainly(b, s.In[i]); !ok {
				return false
			}
		}
	}
	bytes := 0
	for _, v := range append(slices.Clone(s.In), s.Out[0]) {
		if v != nil {
			bytes += b.Bytes(v)
		}
	}
	b.Work(ir.Work{Flops: 2 * int64(record.Size(shape)), Bytes: int64(bytes)})
	at := func(o, of kernel.Operand) kernel.Operand {
		o.Offset, o.Strides = of.Offset, of.Strides
		return o
	}
	for _, p := range list {
		calls, ok := f(p.shape, at(out, p.data), at(in[0], p.data), at(in[1], p.scale), at(in[2], p.scale))
		if !launches(b, calls, ok) {
			return false
		}
	}
	return true
}

func quantize(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	to, precision := d.DType(s.Out[0]), d.DType(s.In[1])
	if precision == tensor.Float8E8M0 {
		precision = d.DType(s.In[0])
	}
	if p := s.Node.Attrs.Int("precision", 0); p != 0 {
		if precision = tensor.DType(p); p < 0 || p > 255 || !record.Float(precision) {
			return false
		}
	}
	if !precision.IsFloat() { // quotients by integers are not rounded
		precision = tensor.Float64
	}
	out, limits := kernel.Operand{Buffer: b.Buffer(s.Out[0]), Type: to}, [2]float64{}
	n := record.Size(d.Shape(s.Out[0]))
	narrow := !computed(to)
	if to.IsInt() {
		limits = kernel.IntLimits(to)
	}
	if narrow {
		out = kernel.Operand{Buffer: b.Scratch(4 * n), Type: tensor.Float32}
		if to.IsInt() {
			out.Type = tensor.Int32
		}
	}
	if !scaled(b, s, out, func(shape []int, out, x, scale, zero kernel.Operand) ([]kernel.Call, bool) {
		return kernel.Quantize(shape, limits, precision, out, x, scale, zero)
	}) {
		return false
	}
	if narrow && n > 0 {
		calls, ok := kernel.Narrow(n, s.Node.Attrs.Int("saturate", 1) != 0, kernel.Up, b.Buffer(s.Out[0]), to, out.Buffer, out.Type)
		return launches(b, calls, ok)
	}
	return true
}

func dequantize(b *record.Builder, s *lowering.Step) bool {
	return scaled(b, s, kernel.Operand{Buffer: b.Buffer(s.Out[0]), Type: b.Binding.DType(s.Out[0])}, kernel.Dequantize)
}
