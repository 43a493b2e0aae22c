package tensors

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Concat",
		Tensor: record.TensorKind{Make: record.Either(record.Shaped(concatKernel), concatBytes)}})
}

// concatBytes concatenates tensors of any type whose elements are whole bytes.
func concatBytes(s *lowering.Step) record.TensorMaker {
	at := s.Node.Attrs.Int("axis", 0)
	return func(d *lowering.Binding) *record.TensorKernel {
		if s.Out[0] == nil || d.Shape(s.Out[0]) == nil {
			return nil
		}
		out, dtype := d.Shape(s.Out[0]), d.DType(s.Out[0])
		axis, err := ops.Axis(at, len(out))
		if err != nil || dtype == tensor.String || dtype == tensor.Invalid || dtype.Bits()%8 != 0 {
			return nil
		}
		var shapes [][]int
		for i := range s.In {
			if s.Absent(i) || !d.Typed(s, i, dtype) || d.ShapeOf(s, i) == nil {
				return nil
			}
			shapes = append(shapes, d.ShapeOf(s, i))
		}
		if !joins(shapes, out, axis) {
			return nil // refused when it is evaluated
		}
		outer, inner := lowering.Runs(out, axis)
		var parts []lowering.Bytes
		for _, v := range s.In {
			parts = append(parts, lowering.BytesOf(d, v))
		}
		size := inner * dtype.Bits() / 8
		result := lowering.BytesOf(d, s.Out[0])
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			y, row := result.In(f), out[axis]*size
			for i, part := range parts {
				x, n := part.In(f), shapes[i][axis]*size
				for r := range outer {
					ops.Put(e.Steps(), y[r*row:r*row+n], x[r*n:(r+1)*n])
				}
				y = y[min(n, len(y)):]
			}
			return nil
		}}
	}
}

// concatKernel concatenates tensors along an axis.
func concatKernel(s *lowering.Step) record.ShapedMaker {
	for i := range s.In {
		if !s.Float32Input(i) {
			return nil
		}
	}
	at := s.Node.Attrs.Int("axis", 0)
	return func(d *lowering.Binding, in [][]int, out []int) *record.TensorKernel {
		axis, err := ops.Axis(at, len(out))
		if err != nil {
			return nil
		}
		if !joins(in, out, axis) {
			return nil // refused when it is evaluated
		}
		outer, inner := lowering.Runs(out, axis)
		var parts []lowering.Slot[float32]
		for i := range s.In {
			parts = append(parts, lowering.Input[float32](d, s, i))
		}
		result := lowering.Output[float32](d, s, 0)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			y, row := result.In(f), out[axis]*inner
			for i, part := range parts {
				x, n := part.In(f), in[i][axis]*inner
				for r := range outer {
					ops.Put(e.Steps(), y[r*row:r*row+n], x[r*n:(r+1)*n])
				}
				y = y[min(n, len(y)):]
			}
			return nil
		}}
	}
}

// joins reports whether tensors of the shapes in make one of the shape out, one after the other along an axis. Types
// with open dimensions do not tell.
func joins(in [][]int, out []int, axis int) bool {
	total := 0
	for _, shape := range in {
		if len(shape) != len(out) {
			return false
		}
		for i, n := range shape {
			if i != axis && n != out[i] {
				return false
			}
		}
		total += shape[axis]
	}
	return total == out[axis]
}
