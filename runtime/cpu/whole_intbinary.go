package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// integerBinary computes Add, Sub and Mul of integers, which wrap around; nil where it has no kernel.
func integerBinary(d *binding, s *lowering.Step) *boundKernel {
	if !d.Typed(s, 1, d.DTypes[s.In[0].ID]) || !d.Gives(s, 0, d.DTypes[s.In[0].ID]) {
		return nil
	}
	var run func(p *comparePass, row int)
	switch d.DTypes[s.In[0].ID] {
	case tensor.Int32:
		run = integerRow[int32](s.Node.Op.Name)
	case tensor.Int64:
		run = integerRow[int64](s.Node.Op.Name)
	}
	if run == nil {
		return nil
	}
	return elementKernel(d, s, run, 0, 0, 1)
}

func integerRow[T int32 | int64](op string) func(p *comparePass, row int) {
	var f func(a, b T) T
	switch op {
	case "Add", "Sum":
		f = func(a, b T) T { return a + b }
	case "Sub":
		f = func(a, b T) T { return a - b }
	case "Mul":
		f = func(a, b T) T { return a * b }
	default:
		return nil
	}
	return func(p *comparePass, row int) {
		n, step := p.b.inner, p.steps()
		y := tensor.Data[T](p.y)[row*n : (row+1)*n]
		a, b := tensor.Data[T](p.x[0])[p.b.at(0, row):], tensor.Data[T](p.x[1])[p.b.at(1, row):]
		for i := range y {
			y[i] = f(a[i*step[0]], b[i*step[1]])
		}
	}
}
