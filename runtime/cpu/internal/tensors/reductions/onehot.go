package reductions

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors/moves"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "OneHot", Tensor: record.TensorKind{Make: oneHotKernel}})
}

// oneHotKernel supports integer indices, and a depth that is known when shapes are bound.
func oneHotKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) || s.Absent(2) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		dtype := d.DType(s.In[2])
		switch {
		case !d.Typed(s, 2, dtype):
		case dtype == tensor.Float32:
			return newOneHot[float32](d, s)
		case dtype == tensor.Float64:
			return newOneHot[float64](d, s)
		case dtype == tensor.Int64:
			return newOneHot[int64](d, s)
		case dtype == tensor.Int32:
			return newOneHot[int32](d, s)
		case dtype == tensor.Int8:
			return newOneHot[int8](d, s)
		case dtype == tensor.Uint8:
			return newOneHot[uint8](d, s)
		}
		return nil
	}
}

func newOneHot[V reduced](d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	shape := d.ShapeOf(s, 0)
	k, ok := d.Ints(s, 1)
	index, isIndex := moves.IndicesOf(d, s, 0)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(shape)+1)
	if shape == nil || !ok || len(k) != 1 || err != nil || !isIndex || !d.Gives(s, 0, d.DType(s.In[2])) ||
		tensors.Product(d.ShapeOf(s, 2)) != 2 || k[0] != int64(d.Shape(s.Out[0])[axis]) {
		return nil // the evaluation reports the error
	}
	depth, inner := int(k[0]), tensors.Product(shape[axis:])
	values, result := lowering.Input[V](d, s, 2), lowering.Output[V](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		y, v := result.In(f), values.In(f)
		ops.Fill(e.Steps(), y, v[0])
		wide, short := index.In(f)
		oneHot(e.Steps(), y, wide, depth, inner, v[1])
		oneHot(e.Steps(), y, short, depth, inner, v[1])
		return nil
	}}
}

// oneHot sets the element of each index in range. Negative indices count from the end.
func oneHot[T int32 | int64, V reduced](c *ir.EvalCtx, y []V, index []T, depth, inner int, on V) {
	for i, v := range ops.All(c, index) {
		k := int(v)
		if k < 0 {
			k += depth
		}
		if k >= 0 && k < depth {
			y[(i/inner*depth+k)*inner+i%inner] = on
		}
	}
}
