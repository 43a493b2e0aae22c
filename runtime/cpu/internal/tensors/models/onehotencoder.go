package models

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "ai.onnx.ml.OneHotEncoder",
		Tensor: record.TensorKind{Make: oneHotEncoderKernel}})
}

// oneHotEncoderKernel sets the position of each element's category to 1. Floats are truncated first.
func oneHotEncoderKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		switch d.DType(s.In[0]) {
		case tensor.Float32:
			return newOneHotEncoder[float32](d, s)
		case tensor.Float64:
			return newOneHotEncoder[float64](d, s)
		case tensor.Int32:
			return newOneHotEncoder[int32](d, s)
		case tensor.Int64:
			return newOneHotEncoder[int64](d, s)
		case tensor.String:
			list := s.Node.Attrs.Strs("cats_strings", nil)
			places, longest := placesOf(d, list, false), ops.Longest(list)
			return oneHotEncoder(d, s, len(list), texts(s.In[0]), func(v string) int64 {
				if len(v) > longest {
					return -1
				}
				if i, ok := places[v]; ok {
					return i
				}
				return -1
			})
		}
		return nil
	}
}

func newOneHotEncoder[T float32 | float64 | int32 | int64](d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	list := s.Node.Attrs.Ints("cats_int64s", nil)
	places := newKeyPlaces(d, list, false)
	x := lowering.Input[T](d, s, 0)
	return oneHotEncoder(d, s, len(list), func(f *lowering.Frame) ([]T, bool) { return x.In(f), true },
		func(v T) int64 { return places.of(int64(v)) })
}

// oneHotEncoder needs the number of categories, the elements, and the category of each, or -1.
func oneHotEncoder[T any](d *lowering.Binding, s *lowering.Step, n int, elements func(f *lowering.Frame) ([]T, bool),
	category func(v T) int64) *record.TensorKernel {
	shape := d.ShapeOf(s, 0)
	if shape == nil || n == 0 || !d.Gives(s, 0, tensor.Float32) ||
		!slices.Equal(d.Shape(s.Out[0]), append(slices.Clone(shape), n)) {
		return nil // the evaluation reports the error
	}
	y := lowering.Output[float32](d, s, 0)
	strict, all := s.Node.Attrs.Int("zeros", 1) == 0, tensors.Product(shape)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		x, ok := elements(f)
		if !ok || len(x) != all {
			return e.Fallback(s)
		}
		y, c := y.In(f), e.Steps()
		for i, v := range x {
			c.Step(8 + n/8)
			row := y[i*n : (i+1)*n]
			clear(row)
			if at := category(v); at >= 0 {
				row[at] = 1
			} else if strict {
				return e.Fallback(s) // the evaluation reports the error
			}
		}
		return nil
	}}
}
