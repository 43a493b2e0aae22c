package tensors

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

// A comparison is a set of these bits: it holds if the order of the operands is in the set.
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
	var run func(p *comparePass, row int)
	dtype := d.DType(s.In[0])
	switch dtype {
	case tensor.Float32:
		run = compareRow[float32]
	case tensor.Float64:
		run = compareRow[float64]
	case tensor.Int32:
		run = compareRow[int32]
	case tensor.Int64:
		run = compareRow[int64]
	default:
		return nil
	}
	if !d.Typed(s, 0, dtype) || !d.Typed(s, 1, dtype) || !d.Gives(s, 0, tensor.Bool) {
		return nil
	}
	return elementKernel(d, s, run, want, 0, 1)
}

func compareRow[T interface {
	cmp.Ordered
	tensor.Elem
}](p *comparePass, row int) {
	n := p.b.Inner
	y := tensor.Data[bool](p.y)[row*n : (row+1)*n]
	a, b := tensor.Data[T](p.x[0])[p.b.At(0, row):], tensor.Data[T](p.x[1])[p.b.At(1, row):]
	lt, eq, gt := p.want&below != 0, p.want&equal != 0, p.want&above != 0
	test := func(a, b T) bool { return lt && a < b || eq && a == b || gt && a > b }
	switch {
	case p.b.Unit[0] && p.b.Unit[1]:
		for i := range y {
			y[i] = test(a[i], b[i])
		}
	case p.b.Unit[0]:
		for i := range y {
			y[i] = test(a[i], b[0])
		}
	case eq && !lt && !gt && p.b.Unit[1]:
		for i, s := range b[:n] {
			y[i] = s == a[0]
		}
	case p.b.Unit[1]:
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
