package moves

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "EyeLike", Tensor: record.TensorKind{Make: eyeKernel}})
}

// eyeKernel writes ones on a diagonal, and zeros elsewhere, for any type of whole bytes.
func eyeKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if s.Out[0] == nil {
			return nil
		}
		shape, dtype := d.Shape(s.Out[0]), d.DType(s.Out[0])
		if len(shape) != 2 || !tensors.Cut(dtype) || !d.Gives(s, 0, dtype) {
			return nil
		}
		rows, columns := shape[0], shape[1]
		k := int(min(max(ops.Int(s.Node, "k"), -int64(rows)), int64(columns)))
		one, err := ops.FromFloat64s(nil, dtype, []float64{1}, 1)
		if err != nil {
			return nil
		}
		unit, size := one.Bytes(), tensor.ByteSize(dtype, 1)
		y := lowering.BytesOf(d, s.Out[0])
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			y := y.In(e.Frame())
			for lo, hi := range ops.Blocks(e.Steps(), len(y), 8*tensors.ItemNumbers) {
				clear(y[lo:hi])
			}
			for i := range ops.Each(e.Steps(), rows) {
				if j := i + k; j >= 0 && j < columns {
					copy(y[(i*columns+j)*size:], unit)
				}
			}
			return nil
		}}
	}
}
