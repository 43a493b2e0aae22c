package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() { register(record{op: "OneHot", tensor: tensorKind{make: oneHotKernel}}) }

// oneHotKernel serves indices of whole numbers, a depth that is known when shapes are bound, and float32 values.
func oneHotKernel(s *lowering.Step) tensorMaker {
	if s.Absent(0) || s.Absent(1) || !s.Float32Input(2) {
		return nil
	}
	return func(d *lowering.Binding) *tensorKernel {
		shape := d.ShapeOf(s, 0)
		k, ok := d.Ints(s, 1)
		wide := d.Typed(s, 0, tensor.Int64)
		axis, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(shape)+1)
		if shape == nil || !ok || len(k) != 1 || err != nil || !wide && !d.Typed(s, 0, tensor.Int32) || !d.Gives(s, 0, tensor.Float32) || product(d.ShapeOf(s, 2)) != 2 ||
			k[0] != int64(d.Shapes[s.Out[0].ID][axis]) {
			return nil // refused when it is evaluated
		}
		depth, inner := int(k[0]), product(shape[axis:])
		return &tensorKernel{run: func(e execution, _ tensorCall) error {
			y, values, index := e.floats(s.Out[0]), e.floats(s.In[2]), e.datum(s.In[0]).(*tensor.Tensor)
			for i := range y {
				y[i] = values[0]
			}
			if wide {
				oneHot(y, tensor.Data[int64](index), depth, inner, values[1])
			} else {
				oneHot(y, tensor.Data[int32](index), depth, inner, values[1])
			}
			return nil
		}}
	}
}

// oneHot sets the place of each index that there is; negative ones count from the end.
func oneHot[T int32 | int64](y []float32, index []T, depth, inner int, on float32) {
	for i, v := range index {
		k := int(v)
		if k < 0 {
			k += depth
		}
		if k >= 0 && k < depth {
			y[(i/inner*depth+k)*inner+i%inner] = on
		}
	}
}
