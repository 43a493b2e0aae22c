package tensors

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
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
		var run func(p *comparePass, row int)
		dtype := d.DType(s.In[1])
		switch dtype {
		case tensor.Float32:
			run = whereRow[float32]
		case tensor.Int64:
			run = whereRow[int64]
		case tensor.Int32:
			run = whereRow[int32]
		default:
			return nil
		}
		if !d.Typed(s, 0, tensor.Bool) || !d.Typed(s, 1, dtype) || !d.Typed(s, 2, dtype) || !d.Gives(s, 0, dtype) {
			return nil
		}
		return elementKernel(d, s, run, 0, 0, 1, 2)
	}
}

func whereRow[T tensor.Elem](p *comparePass, row int) {
	n := p.b.Inner
	y := tensor.Data[T](p.y)[row*n : (row+1)*n]
	c, a, b := tensor.Data[bool](p.x[0])[p.b.At(0, row):], tensor.Data[T](p.x[1])[p.b.At(1, row):], tensor.Data[T](p.x[2])[p.b.At(2, row):]
	step := p.steps()
	for i := range y {
		if c[i*step[0]] {
			y[i] = a[i*step[1]]
		} else {
			y[i] = b[i*step[2]]
		}
	}
}
