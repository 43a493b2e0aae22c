package elements

import (
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// Arithmetic of integers, which wraps around, and of float64. For float32 these operators are elementwise.
func init() {
	record.Register(
		record.Record{Op: "Add", Tensor: record.TensorKind{Make: arithmeticKernel(Adds)}},
		record.Record{Op: "Sum", Tensor: record.TensorKind{Make: arithmeticKernel(Adds)}},
		record.Record{Op: "Sub", Tensor: record.TensorKind{Make: arithmeticKernel(subtracts)}},
		record.Record{Op: "Mul", Tensor: record.TensorKind{Make: arithmeticKernel(Multiplies)}},
		record.Record{Op: "Div", Tensor: record.TensorKind{Make: arithmeticKernel(divides)}},
		record.Record{Op: "Mod", Tensor: record.TensorKind{Make: modKernel}},
		record.Record{Op: "Min", Tensor: record.TensorKind{Make: arithmeticKernel(Least)}},
		record.Record{Op: "Max", Tensor: record.TensorKind{Make: arithmeticKernel(Greatest)}},
		record.Record{Op: "BitwiseAnd", Tensor: record.TensorKind{Make: arithmeticKernel(ands)}},
		record.Record{Op: "BitwiseOr", Tensor: record.TensorKind{Make: arithmeticKernel(ors)}},
		record.Record{Op: "BitwiseXor", Tensor: record.TensorKind{Make: arithmeticKernel(xors)}},
		record.Record{Op: "BitShift", Tensor: record.TensorKind{Make: shiftKernel}},
	)
}

type Arithmetic int

const (
	Adds Arithmetic = iota
	subtracts
	Multiplies
	divides
	remains   // with the sign of the dividend
	remainsAs // with the sign of the divisor
	Least
	Greatest
	ands
	ors
	xors
	shiftsLeft // of unsigned integers
	shiftsRight
)

func arithmeticKernel(how Arithmetic) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) != 2 || s.Absent(0) || s.Absent(1) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			dtype := d.DType(s.In[0])
			if !d.Typed(s, 0, dtype) || !d.Typed(s, 1, dtype) || !d.Gives(s, 0, dtype) {
				return nil
			}
			switch {
			case dtype == tensor.Float64 && how <= divides:
				return elementKernel(d, s, inRuns(func(y, a, b []float64) { JoinFloats(how, y, a, b) }))
			case how == divides || how == remains || how == remainsAs:
				return divisionKernel(d, s, how)
			case dtype == tensor.Int8:
				return elementKernel(d, s, inRuns(func(y, a, b []int8) { JoinInts(how, y, a, b) }))
			case dtype == tensor.Int32:
				return elementKernel(d, s, inRuns(func(y, a, b []int32) { JoinInts(how, y, a, b) }))
			case dtype == tensor.Int64:
				return elementKernel(d, s, inRuns(func(y, a, b []int64) { JoinInts(how, y, a, b) }))
			case dtype == tensor.Uint8:
				return elementKernel(d, s, inRuns(func(y, a, b []uint8) { JoinInts(how, y, a, b) }))
			case dtype == tensor.Int16:
				return elementKernel(d, s, inRuns(func(y, a, b []int16) { JoinInts(how, y, a, b) }))
			case dtype == tensor.Uint16:
				return elementKernel(d, s, inRuns(func(y, a, b []uint16) { JoinInts(how, y, a, b) }))
			case dtype == tensor.Uint32:
				return elementKernel(d, s, inRuns(func(y, a, b []uint32) { JoinInts(how, y, a, b) }))
			case dtype == tensor.Uint64:
				return elementKernel(d, s, inRuns(func(y, a, b []uint64) { JoinInts(how, y, a, b) }))
			}
			return nil
		}
	}
}

func shiftKernel(s *lowering.Step) record.TensorMaker {
	if s.Node.Attrs.Str("direction", "") == "RIGHT" {
		return arithmeticKernel(shiftsRight)(s)
	}
	return arithmeticKernel(shiftsLeft)(s)
}

func modKernel(s *lowering.Step) record.TensorMaker {
	if len(s.In) == 0 || s.Absent(0) || s.Float32Input(0) {
		return nil
	}
	if s.Node.Attrs.Bool("fmod", false) {
		return arithmeticKernel(remains)(s)
	}
	return arithmeticKernel(remainsAs)(s)
}

// inRuns applies a function of operands as long as the result to a row. An operand with one element for all is first
// copied to the whole result, which then serves as the operand.
func inRuns[T any](f func(y, a, b []T)) elementRow {
	return func(p *elementPass, row rowPart) {
		y, a, b, unit := result[T](p, row), operand[T](p, 0, row), operand[T](p, 1, row), p.b.Unit
		repeat := func(x T) []T {
			for i := range y {
				y[i] = x
			}
			return y
		}
		switch {
		case unit[0] && unit[1]:
			f(y, a[:len(y)], b[:len(y)])
		case unit[0]:
			f(y, a[:len(y)], repeat(b[0]))
		case unit[1]:
			f(y, repeat(a[0]), b[:len(y)])
		case len(y) > 0:
			f(y[:1], a[:1], b[:1])
			repeat(y[0])
		}
	}
}

func JoinFloats[T float32 | float64](how Arithmetic, y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	switch how {
	case Adds:
		for i := range y {
			y[i] = a[i] + b[i]
		}
	case subtracts:
		for i := range y {
			y[i] = a[i] - b[i]
		}
	case Multiplies:
		for i := range y {
			y[i] = a[i] * b[i]
		}
	case divides:
		for i := range y {
			y[i] = a[i] / b[i]
		}
	case Least:
		for i := range y {
			y[i] = min(a[i], b[i])
		}
	case Greatest:
		for i := range y {
			y[i] = max(a[i], b[i])
		}
	}
}

func addition[T Integers](a, b T) T { return a + b }

func JoinInts[T Integers](how Arithmetic, y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	switch how {
	case Adds:
		for i := range y {
			y[i] = addition(a[i], b[i])
		}
	case subtracts:
		for i := range y {
			y[i] = a[i] - b[i]
		}
	case Multiplies:
		for i := range y {
			y[i] = a[i] * b[i]
		}
	case Least:
		if unsafe.Sizeof(T(0)) < 4 { // in 64-bit registers, without a branch that would be mispredicted
			for i := range y {
				y[i] = T(min(int64(a[i]), int64(b[i])))
			}
			return
		}
		for i := range y {
			y[i] = min(a[i], b[i])
		}
	case Greatest:
		if unsafe.Sizeof(T(0)) < 4 { // in 64-bit registers, without a branch that would be mispredicted
			for i := range y {
				y[i] = T(max(int64(a[i]), int64(b[i])))
			}
			return
		}
		for i := range y {
			y[i] = max(a[i], b[i])
		}
	case ands:
		for i := range y {
			y[i] = a[i] & b[i]
		}
	case ors:
		for i := range y {
			y[i] = a[i] | b[i]
		}
	case xors:
		for i := range y {
			y[i] = a[i] ^ b[i]
		}
	case shiftsLeft:
		for i := range y {
			y[i] = a[i] << uint64(b[i])
		}
	case shiftsRight:
		for i := range y {
			y[i] = a[i] >> uint64(b[i])
		}
	}
}
