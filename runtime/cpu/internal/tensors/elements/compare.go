package elements

import (
	"cmp"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "Equal", Tensor: record.TensorKind{Make: compareKernel(equal)}},
		record.Record{Op: "Less", Tensor: record.TensorKind{Make: compareKernel(below)}},
		record.Record{Op: "LessOrEqual", Tensor: record.TensorKind{Make: compareKernel(below | equal)}},
		record.Record{Op: "Greater", Tensor: record.TensorKind{Make: compareKernel(above)}},
		record.Record{Op: "GreaterOrEqual", Tensor: record.TensorKind{Make: compareKernel(above | equal)}},
	)
}

// A comparison is a set of these bits. It is true if the order of the operands is in the set.
const (
	below = 1 << iota
	equal
	above
)

func compareKernel(want int) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) != 2 || s.Absent(0) || s.Absent(1) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel { return newComparison(d, s, want) }
	}
}

func newComparison(d *lowering.Binding, s *lowering.Step, want int) *record.TensorKernel {
	dtype := d.DType(s.In[0])
	if !d.Typed(s, 0, dtype) || !d.Typed(s, 1, dtype) || !d.Gives(s, 0, tensor.Bool) {
		return nil
	}
	switch dtype {
	case tensor.Bool: // has only Equal
		return elementKernel(d, s, compareRow[uint8](want))
	case tensor.Int8:
		return elementKernel(d, s, compareRow[int8](want))
	case tensor.Uint8:
		return elementKernel(d, s, compareRow[uint8](want))
	case tensor.Int16:
		return elementKernel(d, s, compareRow[int16](want))
	case tensor.Uint16:
		return elementKernel(d, s, compareRow[uint16](want))
	case tensor.Uint32:
		return elementKernel(d, s, compareRow[uint32](want))
	case tensor.Float32:
		return elementKernel(d, s, compareRow[float32](want))
	case tensor.Float64:
		return elementKernel(d, s, compareRow[float64](want))
	case tensor.Int32:
		return elementKernel(d, s, compareRow[int32](want))
	case tensor.Int64:
		return elementKernel(d, s, compareRow[int64](want))
	}
	return nil
}

// compareRow compares. NaN has no order.
func compareRow[T cmp.Ordered](want int) elementRow {
	lt, eq, gt := want&below != 0, want&equal != 0, want&above != 0
	return func(p *elementPass, row rowPart) {
		y, a, b := result[bool](p, row), operand[T](p, 0, row), operand[T](p, 1, row)
		unit := p.b.Unit
		test := func(a, b T) bool { return lt && a < b || eq && a == b || gt && a > b }
		switch {
		case unit[0] && unit[1] && want == below:
			for i, s := range b[:len(y)] {
				y[i] = a[i] < s
			}
		case unit[0] && unit[1] && want == above:
			for i, s := range b[:len(y)] {
				y[i] = a[i] > s
			}
		case unit[0] && unit[1] && want == equal:
			for i, s := range b[:len(y)] {
				y[i] = a[i] == s
			}
		case unit[0] && unit[1] && want == below|equal:
			for i, s := range b[:len(y)] {
				y[i] = a[i] <= s
			}
		case unit[0] && unit[1] && want == above|equal:
			for i, s := range b[:len(y)] {
				y[i] = a[i] >= s
			}
		case unit[0] && want == below:
			for i, s := range a[:len(y)] {
				y[i] = s < b[0]
			}
		case unit[0] && want == above:
			for i, s := range a[:len(y)] {
				y[i] = s > b[0]
			}
		case unit[0] && want == equal:
			for i, s := range a[:len(y)] {
				y[i] = s == b[0]
			}
		case unit[0] && unit[1]:
			for i := range y {
				y[i] = test(a[i], b[i])
			}
		case unit[0]:
			for i := range y {
				y[i] = test(a[i], b[0])
			}
		case eq && !lt && !gt && unit[1]:
			for i, s := range b[:len(y)] {
				y[i] = s == a[0]
			}
		case unit[1]:
			for i := range y {
				y[i] = test(a[0], b[i])
			}
		default:
			v := test(a[0], b[0])
			for i := range y {
				y[i] = v
			}
		}
	}
}
