package elements

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Where", Tensor: record.TensorKind{Make: whereKernel}})
}

// whereKernel selects from two operands.
func whereKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) || s.Absent(2) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		dtype := d.DType(s.In[1])
		if !d.Typed(s, 0, tensor.Bool) || !d.Typed(s, 1, dtype) || !d.Typed(s, 2, dtype) || !d.Gives(s, 0, dtype) {
			return nil
		}
		switch {
		case !tensors.Cut(dtype):
			return nil
		case tensor.ByteSize(dtype, 1) == 1:
			return elementKernel(d, s, whereRow[uint8])
		case tensor.ByteSize(dtype, 1) == 2:
			return elementKernel(d, s, whereRow[uint16])
		case tensor.ByteSize(dtype, 1) == 4:
			return elementKernel(d, s, whereRow[uint32])
		case tensor.ByteSize(dtype, 1) == 8:
			return elementKernel(d, s, whereRow[uint64])
		}
		return nil
	}
}

// whereRow selects elements as bits of a type of the same size.
func whereRow[T uint8 | uint16 | uint32 | uint64](p *elementPass, row rowPart) {
	y, c, step := result[T](p, row), operand[bool](p, 0, row), p.steps()
	a, b := operand[T](p, 1, row), operand[T](p, 2, row)
	for i := range y {
		var take T // all bits or none, because a branch would be mispredicted half of the time
		if c[i*step[0]] {
			take = 1
		}
		take = -take
		y[i] = a[i*step[1]]&take | b[i*step[2]]&^take
	}
}
