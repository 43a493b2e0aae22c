package models

import (
	"math"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/ml"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: ml.LabelEncoder.FullName(), Tensor: record.TensorKind{Make: labelEncoderKernel}})
}

// labelEncoderKernel maps keys of type string, int64 and float32 to values of these types.
func labelEncoderKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		keys, values, def := ml.EncoderOf(s.Node)
		if keys == nil || d.DType(s.In[0]) != keys.DType() || d.ShapeOf(s, 0) == nil {
			return nil // the evaluation reports the error
		}
		switch keys.DType() {
		case tensor.String:
			places, longest := placesOf(d, keys.Strings(), true), ops.Longest(keys.Strings())
			return encodeTo(d, s, values, def, texts(s.In[0]), func(v string) int64 {
				if len(v) > longest {
					return -1
				}
				if i, ok := places[v]; ok {
					return i
				}
				return -1
			})
		case tensor.Int64:
			places, x := newKeyPlaces(d, tensor.Data[int64](keys), true), lowering.Input[int64](d, s, 0)
			return encodeTo(d, s, values, def, func(f *lowering.Frame) ([]int64, bool) { return x.In(f), true }, places.of)
		case tensor.Float32:
			x := lowering.Input[float32](d, s, 0)
			return encodeTo(d, s, values, def, func(f *lowering.Frame) ([]float32, bool) { return x.In(f), true },
				floatPlaces(d, tensor.Data[float32](keys)))
		}
		return nil
	}
}

// floatPlaces returns a function that finds the index of a number among keys, or -1. NaN equals NaN.
func floatPlaces(d *lowering.Binding, keys []float32) func(v float32) int64 {
	nan, whole := int64(-1), true
	list := ops.Make[int64](d.Steps(), len(keys))
	for i, k := range ops.All(d.Steps(), keys) {
		switch {
		case k != k:
			nan, list[i] = int64(i), math.MinInt64 // a value that no other key has
		case k == float32(int64(k)) && math.Abs(float64(k)) < 1<<24:
			list[i] = int64(k)
		default:
			whole = false
		}
	}
	if whole {
		places := newKeyPlaces(d, list, true)
		return func(v float32) int64 {
			if k := int64(v); float32(k) == v && k != math.MinInt64 {
				return places.of(k)
			}
			if v != v {
				return nan
			}
			return -1
		}
	}
	places := placesOf(d, keys, true)
	return func(v float32) int64 {
		if i, ok := places[v]; ok {
			return i
		}
		if v != v {
			return nan
		}
		return -1
	}
}

// encodeTo returns the values of elements, given their indices among the keys, or -1.
func encodeTo[T any](d *lowering.Binding, s *lowering.Step, values, def *tensor.Tensor,
	elements func(f *lowering.Frame) ([]T, bool), place func(v T) int64) *record.TensorKernel {
	switch {
	case values.DType() == tensor.String:
		list, other, out := values.Strings(), def.Strings()[0], s.Out[0]
		if out == nil || !slices.Equal(d.Shape(out), d.ShapeOf(s, 0)) {
			return nil
		}
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			x, ok := elements(f)
			if !ok {
				return e.Fallback(s)
			}
			if err := f.Take(int64(len(x))*int64(unsafe.Sizeof("")), out.Name); err != nil {
				return err
			}
			y := ops.Make[string](e.Steps(), len(x))
			encode(e, y, x, list, other, place)
			return f.Store(out, tensor.FromStrings(y, d.ShapeOf(s, 0)...))
		}}
	case values.DType() == tensor.Int64 && def.DType() == tensor.Int64 && d.Gives(s, 0, tensor.Int64):
		return encodeNumbers(d, s, tensor.Data[int64](values), tensor.Data[int64](def)[0], elements, place)
	case values.DType() == tensor.Float32 && d.Gives(s, 0, tensor.Float32):
		var other float32
		switch def.DType() {
		case tensor.Float32:
			other = tensor.Data[float32](def)[0]
		case tensor.Float64:
			other = float32(tensor.Data[float64](def)[0])
		default:
			return nil
		}
		return encodeNumbers(d, s, tensor.Data[float32](values), other, elements, place)
	}
	return nil
}

func encodeNumbers[T any, V float32 | int64](d *lowering.Binding, s *lowering.Step, values []V, other V,
	elements func(f *lowering.Frame) ([]T, bool), place func(v T) int64) *record.TensorKernel {
	y := lowering.Output[V](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		x, ok := elements(f)
		to := y.In(f)
		if !ok || len(x) != len(to) {
			return e.Fallback(s)
		}
		encode(e, to, x, values, other, place)
		return nil
	}}
}

func encode[T, V any](e record.Execution, y []V, x []T, values []V, other V, place func(v T) int64) {
	for lo, hi := range ops.Blocks(e.Steps(), len(x), tensors.ItemNumbers) {
		y := y[lo:hi]
		for i, v := range x[lo:hi] {
			if at := place(v); at >= 0 {
				y[i] = values[at]
			} else {
				y[i] = other
			}
		}
	}
}
