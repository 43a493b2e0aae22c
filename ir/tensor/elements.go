package tensor

import (
	"fmt"
	"unsafe"
)

// Element lists the Go types that Elements can return: those of Elem, and string.
type Element interface {
	Elem | string
}

// Elements returns the elements of t in row-major order, without a copy. It is Data with an error in place of a panic
// if T is not the element type of t, and it also returns strings.
func Elements[T Element](t *Tensor) ([]T, error) {
	var z T
	want := String
	if _, text := any(z).(string); !text {
		want = dtypeOf(z)
	}
	if t == nil {
		return nil, fmt.Errorf("expected elements of %v, found no tensor", want)
	}
	if t.dtype != want {
		return nil, fmt.Errorf("expected elements of %v, found %s; %s", want, t, advice(t.dtype, want))
	}
	if want == String {
		return any(t.strs).([]T), nil
	}
	b := t.Bytes()
	if len(b) == 0 {
		return nil, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(z))), nil
}

// advice is what to do about elements of another type than the wanted one.
func advice(have, want DType) string {
	if name := goTypes[have]; name != "" {
		return fmt.Sprintf("ask for %s, or convert the tensor by Tensor.Convert", name)
	}
	return fmt.Sprintf("convert the tensor by Tensor.Convert(%s, false)", want.GoName())
}

// goTypes are the names of the Go types of elements.
var goTypes = map[DType]string{Float32: "float32", Float64: "float64", Int8: "int8", Int16: "int16", Int32: "int32",
	Int64: "int64",
	Uint8: "uint8", Uint16: "uint16", Uint32: "uint32", Uint64: "uint64", Bool: "bool", Complex64: "complex64",
	Complex128: "complex128", Float16: "tensor.F16", BFloat16: "tensor.BF16", String: "string"}
