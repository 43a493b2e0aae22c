package tensors

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators that give bools of bools, or of numbers, element by element.
func init() {
	and := binaryRow(func(a, b bool) bool { return a && b })
	or := binaryRow(func(a, b bool) bool { return a || b })
	xor := binaryRow(func(a, b bool) bool { return a != b })
	not := predicateRow(func(x bool) bool { return !x })
	isNaN := predicateRow(func(x float32) bool { return x != x })
	record.Register(
		record.Record{Op: "And", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, and)}},
		record.Record{Op: "Or", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, or)}},
		record.Record{Op: "Xor", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, xor)}},
		record.Record{Op: "Not", Tensor: record.TensorKind{Make: logicKernel(1, tensor.Bool, not)}},
		record.Record{Op: "IsNaN", Tensor: record.TensorKind{Make: logicKernel(1, tensor.Float32, isNaN)}},
		record.Record{Op: "IsInf", Tensor: record.TensorKind{Make: isInfKernel}},
	)
}

func isInfKernel(s *lowering.Step) record.TensorMaker {
	above, below := s.Node.Attrs.Bool("detect_positive", true), s.Node.Attrs.Bool("detect_negative", true)
	return logicKernel(1, tensor.Float32, predicateRow(func(x float32) bool {
		return above && x > math.MaxFloat32 || below && x < -math.MaxFloat32
	}))(s)
}

// logicKernel reads one or two inputs of an element type under broadcasting.
func logicKernel(inputs int, dtype tensor.DType, run elementRow) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) != inputs || s.Absent(0) || s.Absent(inputs-1) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			if !d.Typed(s, 0, dtype) || !d.Typed(s, inputs-1, dtype) || !d.Gives(s, 0, tensor.Bool) {
				return nil
			}
			return elementKernel(d, s, run)
		}
	}
}

// binaryRow joins elements of one type.
func binaryRow[T bool | int32 | int64](join func(a, b T) T) elementRow {
	return func(p *elementPass, row rowPart) {
		y, a, b, step := result[T](p, row), operand[T](p, 0, row), operand[T](p, 1, row), p.steps()
		for i := range y {
			y[i] = join(a[i*step[0]], b[i*step[1]])
		}
	}
}

// predicateRow asks something of each element.
func predicateRow[T bool | float32](holds func(x T) bool) elementRow {
	return func(p *elementPass, row rowPart) {
		y, x, step := result[bool](p, row), operand[T](p, 0, row), p.steps()
		for i := range y {
			y[i] = holds(x[i*step[0]])
		}
	}
}
