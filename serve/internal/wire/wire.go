// Package wire turns tensors into the bytes of the Open Inference Protocol v2, and back: in binary, as REST and gRPC
// have them, and as JSON.
//
// All of it is for untrusted input: no length is believed before the bytes are there.
package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
)

// types are the element types of the protocol, by their names.
var types = map[string]tensor.DType{
	"BOOL": tensor.Bool, "UINT8": tensor.Uint8, "UINT16": tensor.Uint16, "UINT32": tensor.Uint32, "UINT64": tensor.Uint64,
	"INT8": tensor.Int8, "INT16": tensor.Int16, "INT32": tensor.Int32, "INT64": tensor.Int64, "FP16": tensor.Float16,
	"FP32": tensor.Float32, "FP64": tensor.Float64, "BF16": tensor.BFloat16, "BYTES": tensor.String,
}

var names = func() map[tensor.DType]string {
	out := map[tensor.DType]string{}
	for name, d := range types {
		out[d] = name
	}
	return out
}()

// Name returns the protocol's name of an element type. It has none for complex numbers, and for floats and integers of
// 8 bits or fewer that the protocol lacks.
func Name(d tensor.DType) (string, bool) {
	name, ok := names[d]
	return name, ok
}

// Type returns the element type with a name of the protocol.
func Type(name string) (tensor.DType, error) {
	d, ok := types[name]
	if !ok {
		return 0, fmt.Errorf("datatype %.20q is not one of the protocol", name)
	}
	return d, nil
}

// maxRank bounds the dimensions of a tensor.
const maxRank = 64

// Shape checks a shape of a request, and returns it with its number of elements.
func Shape(dims []int64) ([]int, int, error) {
	if len(dims) > maxRank {
		return nil, 0, fmt.Errorf("shape has %d dimensions, more than %d", len(dims), maxRank)
	}
	shape := make([]int, len(dims))
	for i, n := range dims {
		if n < 0 || n > math.MaxInt32 {
			return nil, 0, fmt.Errorf("shape %v: dimension %d: expected 0 to %d, found %d", dims, i, math.MaxInt32, n)
		}
		shape[i] = int(n)
	}
	n, err := tensor.Size(shape)
	if err != nil {
		return nil, 0, fmt.Errorf("shape %v: %w", dims, err)
	}
	return shape, n, nil
}

// Decode makes a tensor of its binary form. It may view b.
func Decode(d tensor.DType, dims []int64, b []byte) (*tensor.Tensor, error) {
	shape, n, err := Shape(dims)
	if err != nil {
		return nil, err
	}
	if d != tensor.String {
		if size := tensor.ByteSize(d, n); size != len(b) {
			return nil, fmt.Errorf("expected %d bytes for %s%v, found %d", size, names[d], dims, len(b))
		}
		return tensor.FromBytes(d, shape, b)
	}
	if int64(n)*4 > int64(len(b)) {
		return nil, fmt.Errorf("expected at least %d bytes for BYTES%v, found %d", n*4, dims, len(b))
	}
	list := make([]string, n)
	for i := range list {
		if len(b) < 4 {
			return nil, fmt.Errorf("element %d: its length is missing", i)
		}
		size := binary.LittleEndian.Uint32(b)
		if b = b[4:]; uint64(size) > uint64(len(b)) {
			return nil, fmt.Errorf("element %d: expected %d bytes, found %d", i, size, len(b))
		}
		list[i], b = string(b[:size]), b[size:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes follow the last element", len(b))
	}
	return tensor.FromStrings(list, shape...), nil
}

// Encode returns the binary form of a tensor. It may view the tensor's storage.
func Encode(t *tensor.Tensor) ([]byte, error) {
	if t.DType() != tensor.String {
		return t.Bytes(), nil
	}
	list, err := tensor.Elements[string](t)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, s := range list {
		if len(s) > math.MaxInt32 {
			return nil, fmt.Errorf("an element has %d bytes", len(s))
		}
		size += 4 + len(s)
	}
	b := make([]byte, 0, size)
	for _, s := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b, nil
}

// Dims returns the shape of a tensor for an answer.
func Dims(t *tensor.Tensor) []int64 {
	out := make([]int64, t.Rank())
	for i, n := range t.Shape() {
		out[i] = int64(n)
	}
	return out
}

// HasNaN reports whether a tensor of floats has a number that is not one.
func HasNaN(t *tensor.Tensor) bool {
	switch t.DType() {
	case tensor.Float32:
		for _, x := range tensor.Data[float32](t) {
			if x != x {
				return true
			}
		}
	case tensor.Float64:
		for _, x := range tensor.Data[float64](t) {
			if x != x {
				return true
			}
		}
	case tensor.Float16:
		for _, x := range tensor.Data[tensor.F16](t) {
			if x&0x7fff > 0x7c00 {
				return true
			}
		}
	case tensor.BFloat16:
		for _, x := range tensor.Data[tensor.BF16](t) {
			if x&0x7fff > 0x7f80 {
				return true
			}
		}
	}
	return false
}
