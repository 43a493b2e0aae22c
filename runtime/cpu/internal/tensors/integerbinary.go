package tensors

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Arithmetic of integers, which wraps around. Of floating types these operators are elementwise.
func init() {
	record.Register(
		record.Record{Op: "Add", Tensor: record.TensorKind{Make: integerBinary(addition[int32], addition[int64])}},
		record.Record{Op: "Sum", Tensor: record.TensorKind{Make: integerBinary(addition[int32], addition[int64])}},
		record.Record{Op: "Sub", Tensor: record.TensorKind{Make: integerBinary(func(a, b int32) int32 { return a - b },
			func(a, b int64) int64 { return a - b })}},
		record.Record{Op: "Mul", Tensor: record.TensorKind{Make: integerBinary(func(a, b int32) int32 { return a * b },
			func(a, b int64) int64 { return a * b })}},
	)
}

func addition[T int32 | int64](a, b T) T { return a + b }

func integerBinary(i32 func(a, b int32) int32, i64 func(a, b int64) int64) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) != 2 || s.Absent(0) || s.Absent(1) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			dtype := d.DType(s.In[0])
			if !d.Typed(s, 0, dtype) || !d.Typed(s, 1, dtype) || !d.Gives(s, 0, dtype) {
				return nil
			}
			switch dtype {
			case tensor.Int32:
				return elementKernel(d, s, binaryRow(i32))
			case tensor.Int64:
				return elementKernel(d, s, binaryRow(i64))
			}
			return nil
		}
	}
}
