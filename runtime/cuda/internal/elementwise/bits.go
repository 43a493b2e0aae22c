package elementwise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	for _, name := range []string{"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"} {
		record.Register(record.Record{Op: name, Build: bits, Takes: func(s *lowering.Step) bool {
			return ops.Newest(s.Node.Op) && s.Rows == nil && kernel.HasBits(record.Declared(s.Node.Out(0)))
		}})
	}
	record.Register(record.Record{Op: "BitCast", Build: bitCast, Takes: func(s *lowering.Step) bool {
		from := record.Declared(s.Node.In(0))
		return s.Rows == nil && from != tensor.Invalid && from.Bits() == record.Declared(s.Node.Out(0)).Bits()
	}})
}

// bits adds the operation of a step on the bits of integers.
func bits(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape, bytes := d.Shape(s.Out[0]), b.Bytes(s.Out[0])
	var in []kernel.Operand
	for _, v := range s.In {
		bytes += b.Bytes(v)
		in = append(in, kernel.Operand{Buffer: b.Buffer(v), Type: d.DType(v), Strides: ops.BroadcastStrides(d.Shape(v), shape)})
	}
	calls, ok := kernel.Bits(kernel.BitsOf(s.Node.Op.Name[len("Bitwise"):]), shape,
		kernel.Dense(b.Buffer(s.Out[0]), d.DType(s.Out[0])), in...)
	b.Launch(calls...)
	b.Work(ir.Work{Bytes: int64(bytes)})
	return ok
}

// bitCast makes the result share the memory of the input, or copies it.
func bitCast(b *record.Builder, s *lowering.Step) bool {
	if !b.View(s.Out[0], s.In[0]) {
		b.Copy(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Bytes(s.In[0]))
	}
	return true
}
