package tensors

import (
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Operators that give bools of bools, or of numbers, element by element.
func init() {
	record.Register(
		record.Record{Op: "And", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, logicRow(func(a, b bool) bool { return a && b }))}},
		record.Record{Op: "Or", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, logicRow(func(a, b bool) bool { return a || b }))}},
		record.Record{Op: "Xor", Tensor: record.TensorKind{Make: logicKernel(2, tensor.Bool, logicRow(func(a, b bool) bool { return a != b }))}},
		record.Record{Op: "Not", Tensor: record.TensorKind{Make: logicKernel(1, tensor.Bool, predicateRow(func(x bool) bool { return !x }))}},
		record.Record{Op: "IsNaN", Tensor: record.TensorKind{Make: logicKernel(1, tensor.Float32, predicateRow(func(x float32) bool { return x != x }))}},
		record.Record{Op: "IsInf", Tensor: record.TensorKind{Make: isInfKernel}},
	)
}

func isInfKernel(s *lowering.Step) record.TensorMaker {
	above, below := s.Node.Attrs.Bool("detect_positive", true), s.Node.Attrs.Bool("detect_negative", true)
	return logicKernel(1, tensor.Float32, predicateRow(func(x float32) bool {
		return above && x > math.MaxFloat32 || below && x < -math.MaxFloat32
	}))(s)
}

// logicKernel reads some inputs of an element type under broadcasting.
func logicKernel(inputs int, dtype tensor.DType, run func(p *comparePass, row int)) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) != inputs || s.Absent(0) || s.Absent(inputs-1) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			if !d.Typed(s, 0, dtype) || !d.Typed(s, inputs-1, dtype) || !d.Gives(s, 0, tensor.Bool) {
				return nil
			}
			return elementKernel(d, s, run, 0, []int{0, 1}[:inputs]...)
		}
	}
}

func logicRow(f func(a, b bool) bool) func(p *comparePass, row int) {
	return func(p *comparePass, row int) {
		y := tensor.Data[bool](p.y)[row*p.b.Inner : (row+1)*p.b.Inner]
		a, b := tensor.Data[bool](p.x[0])[p.b.At(0, row):], tensor.Data[bool](p.x[1])[p.b.At(1, row):]
		step := p.steps()
		for i := range y {
			y[i] = f(a[i*step[0]], b[i*step[1]])
		}
	}
}

func predicateRow[T bool | float32](f func(x T) bool) func(p *comparePass, row int) {
	return func(p *comparePass, row int) {
		y, x := tensor.Data[bool](p.y)[row*p.b.Inner:(row+1)*p.b.Inner], tensor.Data[T](p.x[0])[p.b.At(0, row):]
		step := p.steps()
		for i := range y {
			y[i] = f(x[i*step[0]])
		}
	}
}
