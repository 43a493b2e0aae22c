package onnxgo

import (
	"fmt"

	gorgonia "gorgonia.org/tensor"

	"github.com/essmc/essmc/ir/tensor"
)

// FromGorgonia returns a tensor with the elements of t. It shares t's storage if that is dense, contiguous and in
// row-major order, and copies it otherwise. Go's int becomes int64.
func FromGorgonia(t gorgonia.Tensor) (*tensor.Tensor, error) {
	d, ok := t.(*gorgonia.Dense)
	if !ok {
		return nil, fmt.Errorf("expected a dense tensor, found %T", t)
	}
	if d.RequiresIterator() || !d.DataOrder().IsRowMajor() || d.DataOrder().IsTransposed() {
		c, ok := d.Materialize().(*gorgonia.Dense)
		if !ok || c.DataOrder().IsColMajor() {
			return nil, fmt.Errorf("expected a tensor in row-major order, found %v", d.DataOrder())
		}
		d = c
	}
	shape := append([]int{}, d.Shape()...)
	switch v := d.Data().(type) {
	case []float32:
		return view(v, shape)
	case []float64:
		return view(v, shape)
	case []int64:
		return view(v, shape)
	case []int32:
		return view(v, shape)
	case []int16:
		return view(v, shape)
	case []int8:
		return view(v, shape)
	case []uint64:
		return view(v, shape)
	case []uint32:
		return view(v, shape)
	case []uint16:
		return view(v, shape)
	case []uint8:
		return view(v, shape)
	case []bool:
		return view(v, shape)
	case []complex64:
		return view(v, shape)
	case []complex128:
		return view(v, shape)
	case []int:
		w := make([]int64, len(v))
		for i, x := range v {
			w[i] = int64(x)
		}
		return view(w, shape)
	case []string:
		if n, err := tensor.Size(shape); err != nil || n != len(v) {
			return nil, fmt.Errorf("%d elements for shape %v", len(v), shape)
		}
		return tensor.FromStrings(v, shape...), nil
	case float32: // the data of a scalar is its value
		return tensor.Scalar(v), nil
	case float64:
		return tensor.Scalar(v), nil
	case int64:
		return tensor.Scalar(v), nil
	case int32:
		return tensor.Scalar(v), nil
	case bool:
		return tensor.Scalar(v), nil
	case int:
		return tensor.Scalar(int64(v)), nil
	}
	return nil, fmt.Errorf("element type %v has no counterpart here", d.Dtype())
}

func view[T tensor.Elem](v []T, shape []int) (*tensor.Tensor, error) {
	if n, err := tensor.Size(shape); err != nil || n != len(v) {
		return nil, fmt.Errorf("%d elements for shape %v", len(v), shape)
	}
	return tensor.FromSlice(v, shape...), nil
}

// ToGorgonia returns a dense tensor with the elements of t. It shares t's storage. Narrow floats, which gorgonia does
// not have, become float32.
func ToGorgonia(t *tensor.Tensor) (*gorgonia.Dense, error) {
	switch t.DType() {
	case tensor.Float32:
		return dense[float32](t), nil
	case tensor.Float64:
		return dense[float64](t), nil
	case tensor.Int64:
		return dense[int64](t), nil
	case tensor.Int32:
		return dense[int32](t), nil
	case tensor.Int16:
		return dense[int16](t), nil
	case tensor.Int8:
		return dense[int8](t), nil
	case tensor.Uint64:
		return dense[uint64](t), nil
	case tensor.Uint32:
		return dense[uint32](t), nil
	case tensor.Uint16:
		return dense[uint16](t), nil
	case tensor.Uint8:
		return dense[uint8](t), nil
	case tensor.Bool:
		return dense[bool](t), nil
	case tensor.Complex64:
		return dense[complex64](t), nil
	case tensor.Complex128:
		return dense[complex128](t), nil
	case tensor.String:
		if t.Rank() == 0 {
			return gorgonia.New(gorgonia.FromScalar(t.Strings()[0])), nil
		}
		return gorgonia.New(gorgonia.WithShape(t.Shape()...), gorgonia.WithBacking(t.Strings())), nil
	}
	wide, err := t.Convert(tensor.Float32, false)
	if err != nil {
		return nil, fmt.Errorf("element type %v has no counterpart in gorgonia", t.DType())
	}
	return dense[float32](wide), nil
}

func dense[T tensor.Elem](t *tensor.Tensor) *gorgonia.Dense {
	v := tensor.Data[T](t)
	if t.Rank() == 0 {
		return gorgonia.New(gorgonia.FromScalar(v[0]))
	}
	return gorgonia.New(gorgonia.WithShape(t.Shape()...), gorgonia.WithBacking(v))
}
