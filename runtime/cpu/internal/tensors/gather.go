package tensors

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Gather", Tensor: record.TensorKind{Make: gatherKernel}})
}

// gatherKernel picks slices. Where the indices are known when shapes are bound that is a movement; else, as in loops, they
// are read when it runs.
func gatherKernel(s *lowering.Step) record.TensorMaker {
	known := moveKernel(s)
	if known == nil || s.Absent(1) {
		return nil
	}
	at := s.Node.Attrs.Int("axis", 0)
	return func(d *lowering.Binding) *record.TensorKernel {
		if k := known(d); k != nil {
			return k
		}
		x, y, index := s.In[0], s.Out[0], s.In[1]
		shape, dtype := d.Shape(x), d.DType(x)
		axis, err := ops.Axis(at, len(shape))
		wide := d.Typed(s, 1, tensor.Int64)
		if y == nil || shape == nil || err != nil || !cut(dtype) || d.DType(y) != dtype || d.Shape(y) == nil || !wide && !d.Typed(s, 1, tensor.Int32) {
			return nil
		}
		outer, inner := lowering.Runs(shape, axis)
		length, size := shape[axis], tensor.ByteSize(dtype, inner)
		count, _ := tensor.Size(d.Shape(index))
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			from, to, places := e.Datum(x).(*tensor.Tensor).Bytes(), e.Datum(y).(*tensor.Tensor).Bytes(), e.Datum(index).(*tensor.Tensor)
			for i := range count {
				var k int
				if wide {
					k = int(tensor.Data[int64](places)[i])
				} else {
					k = int(tensor.Data[int32](places)[i])
				}
				if k < 0 {
					k += length
				}
				if k < 0 || k >= length {
					return e.Fallback(s) // says what is wrong
				}
				for o := range outer {
					copy(to[(o*count+i)*size:(o*count+i+1)*size], from[(o*length+k)*size:])
				}
			}
			return nil
		}}
	}
}

// cut reports whether parts of tensors of this type are whole bytes.
func cut(t tensor.DType) bool { return t != tensor.String && !t.Packed() }
