// Package tensor holds arrays in host memory: element types down to two bits, shapes, storage, conversion between
// element types, and the sequences and optionals of ONNX. It does no mathematics.
//
// It imports nothing but the standard library. A Tensor's storage has exactly the bytes that its dtype and shape need,
// starts at an address aligned for its elements, and is little-endian; on other machines, files are refused
// (ErrByteOrder). A bool is 0 or 1. The bits after the last element of a packed type are 0. No dimension is negative.
package tensor

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unsafe"
)

// Align is the alignment in bytes of storage that New makes: a cache line, and the widest vector register.
const Align = 64

// Tensor is a dense array in row-major order. The zero Tensor is not valid; make one with New, FromSlice or FromBytes.
type Tensor struct {
	dtype DType
	shape []int
	data  []byte
	lazy  *lazy // in place of data
	strs  []string
}

// Element types that Go does not have. The numbers are the bit patterns.
type (
	F16  uint16 // IEEE 754 binary16
	BF16 uint16 // the upper half of a binary32
	F8   uint8  // any of the 8-bit floats; the dtype tells which
)

// Elem lists the Go types whose slices can view a tensor's storage.
type Elem interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | bool | complex64 |
		complex128 | F16 | BF16
}

// DTypeOf returns the dtype of a Go element type.
func DTypeOf[T Elem]() DType {
	var z T
	return dtypeOf(z)
}

func dtypeOf(z any) DType {
	switch z.(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case bool:
		return Bool
	case complex64:
		return Complex64
	case complex128:
		return Complex128
	case F16:
		return Float16
	default:
		return BFloat16
	}
}

// ErrTooLarge is the error for a shape with more elements or bytes than an int can count.
var ErrTooLarge = errors.New("shape is too large")

// Extent returns n as an int. On machines whose ints have 32 bits, a larger n becomes the largest int, which Size
// refuses.
func Extent(n int64) int { return int(max(math.MinInt, min(n, math.MaxInt))) }

// Size returns the number of elements of a shape, or an error when a dimension is negative or the product overflows.
func Size(shape []int) (int, error) {
	n, zero := 1, false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension %d in shape %v", d, shape)
		}
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		if hi != 0 || lo > math.MaxInt/16 {
			return 0, fmt.Errorf("shape %v: %w", shape, ErrTooLarge)
		}
		n = int(lo)
	}
	if zero {
		return 0, nil
	}
	return n, nil
}

// ByteSize returns the number of bytes of n elements of d. Packed types round up to whole bytes. It does not overflow
// for any n that Size returns.
func ByteSize(d DType, n int) int { return n/8*d.Bits() + (n%8*d.Bits()+7)/8 }

// AlignedBytes allocates n zero bytes that start at a multiple of Align.
func AlignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	b := make([]byte, n+Align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & (Align - 1))
	return b[off : off+n : off+n]
}

// largePart is the number of bytes that are cleared or copied between two calls of pause.
const largePart = 1 << 18

// AlignedParts is AlignedBytes, which calls pause before each 256 KiB that it clears. Go clears as much as it allocates
// at once.
func AlignedParts(n int, pause func()) []byte {
	if n <= largePart {
		return AlignedBytes(n)
	}
	b := uncleared(n)
	for lo := 0; lo < n; lo += largePart {
		pause()
		clear(b[lo:min(lo+largePart, n)])
	}
	return b
}

// uncleared allocates n bytes of any content that start at a multiple of Align.
func uncleared(n int) []byte {
	var b strings.Builder // the one allocation of the standard library that is not cleared
	b.Grow(n + Align)
	b.WriteByte(0)
	v := unsafe.Slice(unsafe.StringData(b.String()), n+Align)
	off := int(-uintptr(unsafe.Pointer(&v[0])) & (Align - 1))
	return v[off : off+n : off+n]
}

// NewParts is New, which calls pause before each 256 KiB that it clears. Headers of strings are cleared at once.
func NewParts(pause func(), d DType, shape ...int) *Tensor {
	n, err := Size(shape)
	if err != nil || !d.Valid() || d == String || ByteSize(d, n) <= largePart {
		return New(d, shape...)
	}
	return &Tensor{dtype: d, shape: slices.Clone(shape), data: AlignedParts(ByteSize(d, n), pause)}
}

// New makes a tensor of zeros. It panics if the shape has a negative dimension or overflows, so check shapes from files
// and callers by Size first.
func New(d DType, shape ...int) *Tensor {
	n, err := Size(shape)
	if err != nil || !d.Valid() {
		panic(fmt.Sprintf("tensor.New(%v, %v): %v", d, shape, err))
	}
	t := &Tensor{dtype: d, shape: slices.Clone(shape)}
	if d == String {
		t.strs = make([]string, n)
	} else {
		t.data = AlignedBytes(ByteSize(d, n))
	}
	return t
}

// FromSlice makes a tensor that views v, without a copy. It panics if the lengths differ.
func FromSlice[T Elem](v []T, shape ...int) *Tensor {
	n, err := Size(shape)
	if err != nil || n != len(v) {
		panic(fmt.Sprintf("tensor.FromSlice: %d elements for shape %v", len(v), shape))
	}
	t := &Tensor{dtype: DTypeOf[T](), shape: slices.Clone(shape)}
	if n > 0 {
		t.data = unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), n*int(unsafe.Sizeof(v[0])))
	}
	return t
}

// FromStrings makes a string tensor that holds v.
func FromStrings(v []string, shape ...int) *Tensor {
	n, err := Size(shape)
	if err != nil || n != len(v) {
		panic(fmt.Sprintf("tensor.FromStrings: %d elements for shape %v", len(v), shape))
	}
	return &Tensor{dtype: String, shape: slices.Clone(shape), strs: v}
}

// Scalar makes a tensor of rank 0.
func Scalar[T Elem](v T) *Tensor { return FromSlice([]T{v}) }

// FromBytes makes a tensor of the elements in b, in little-endian order. It views b if that is aligned for the element
// type, and copies it otherwise. The bits after the last element of a packed type become 0, in a copy if they are not.
// The length must be that of the dtype and shape, and the bytes of a bool 0 or 1.
func FromBytes(d DType, shape []int, b []byte) (*Tensor, error) {
	return FromBytesParts(func() {}, d, shape, b)
}

// FromBytesParts is FromBytes, which calls pause before each 256 KiB that it checks or copies.
func FromBytesParts(pause func(), d DType, shape []int, b []byte) (*Tensor, error) {
	n, err := Size(shape)
	if err != nil {
		return nil, err
	}
	if !d.Valid() || d == String {
		return nil, fmt.Errorf("no byte form for element type %v", d)
	}
	if want := ByteSize(d, n); len(b) != want {
		return nil, fmt.Errorf("%v %v needs %d bytes, found %d", d, shape, want, len(b))
	}
	if align := uintptr(max(1, d.Bits()/8)); len(b) > 0 && uintptr(unsafe.Pointer(&b[0]))%min(align, 8) != 0 {
		b = alignedCopy(pause, b)
	}
	if d == Bool {
		for i, c := range b {
			if i%largePart == largePart-1 {
				pause()
			}
			if c > 1 {
				return nil, fmt.Errorf("bool element %d is %d, expected 0 or 1", i, c)
			}
		}
	}
	if used := n * d.Bits() % 8; d.Packed() && used != 0 && b[len(b)-1]>>used != 0 {
		b = alignedCopy(pause, b)
		b[len(b)-1] &= 1<<used - 1
	}
	return &Tensor{dtype: d, shape: slices.Clone(shape), data: b[:len(b):len(b)]}, nil
}

func alignedCopy(pause func(), b []byte) []byte {
	c := AlignedUncleared(len(b))
	for lo := 0; lo < len(b); lo += largePart {
		pause()
		copy(c[lo:min(lo+largePart, len(b))], b[lo:])
	}
	return c
}

// AlignedUncleared is AlignedBytes for callers that write all n bytes before they read one.
func AlignedUncleared(n int) []byte {
	if n <= largePart {
		return AlignedBytes(n)
	}
	return uncleared(n)
}

// Data returns the storage of t as a slice. It panics if T is not t's element type; Elements returns an error instead,
// and also reads strings. Packed and 8-bit float types are read by Bytes or Float64s.
func Data[T Elem](t *Tensor) []T {
	if want := DTypeOf[T](); t.dtype != want {
		panic(fmt.Sprintf("tensor.Data: tensor is %v, asked for %v", t.dtype, want))
	}
	return View[T](t.Bytes())
}

// DType returns the tensor's element type.
func (t *Tensor) DType() DType { return t.dtype }

// Shape returns the dimensions. Callers must not change them.
func (t *Tensor) Shape() []int { return t.shape }

// Rank returns the number of dimensions.
func (t *Tensor) Rank() int { return len(t.shape) }

// Dim returns dimension i. A negative i counts from the end.
func (t *Tensor) Dim(i int) int {
	if i < 0 {
		i += len(t.shape)
	}
	return t.shape[i]
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// Bytes returns the storage, or nil for strings.
func (t *Tensor) Bytes() []byte {
	if t.lazy != nil {
		return t.lazy.bytes()
	}
	return t.data
}

// Strings returns the elements of a string tensor in row-major order, without a copy, or nil for other element types.
// Elements[string] returns an error for those.
func (t *Tensor) Strings() []string { return t.strs }

// Reshape returns a tensor of another shape of equal size that shares the storage.
func (t *Tensor) Reshape(shape ...int) (*Tensor, error) {
	n, err := Size(shape)
	if err != nil {
		return nil, err
	}
	if n != t.Len() {
		return nil, fmt.Errorf("cannot reshape %v (%d elements) to %v (%d elements)", t.shape, t.Len(), shape, n)
	}
	return &Tensor{dtype: t.dtype, shape: slices.Clone(shape), data: t.data, lazy: t.lazy, strs: t.strs}, nil
}

// NewView makes a tensor without elements, for Rebase to set. Runtimes use it to go through a tensor part by part
// without allocation. It panics where New does, and for strings and packed types, whose parts may not be whole bytes.
func NewView(d DType, shape ...int) *Tensor {
	if _, err := Size(shape); err != nil || !d.Valid() || d == String || d.Packed() {
		panic(fmt.Sprintf("tensor.NewView(%v, %v): %v", d, shape, err))
	}
	return &Tensor{dtype: d, shape: slices.Clone(shape)}
}

// Rebase makes t a view of base's elements from index at on, under t's own shape. All holders of t see the change. With
// a nil base t has no elements, as after NewView. It panics if base has another element type or too few elements.
func (t *Tensor) Rebase(base *Tensor, at int) {
	t.data, t.lazy = nil, nil
	if base == nil {
		return
	}
	n, size := t.Len(), t.dtype.Bits()/8
	if t.dtype != base.dtype || t.dtype == String || t.dtype.Packed() || at < 0 || at > base.Len()-n {
		panic(fmt.Sprintf("tensor.Rebase: %s from element %d of %s", t, at, base))
	}
	if n > 0 {
		t.data = base.Bytes()[at*size : (at+n)*size : (at+n)*size]
	}
}

// Clone copies the tensor and its storage.
func (t *Tensor) Clone() *Tensor {
	c := New(t.dtype, t.shape...)
	copy(c.data, t.Bytes())
	copy(c.strs, t.strs)
	return c
}

// CloneParts is Clone, which calls pause before each 256 KiB that it copies.
func (t *Tensor) CloneParts(pause func()) *Tensor {
	size := len(t.Bytes())
	if size <= largePart && len(t.strs) <= largePart/16 {
		return t.Clone()
	}
	c := &Tensor{dtype: t.dtype, shape: slices.Clone(t.shape)}
	if t.dtype == String {
		c.strs = make([]string, len(t.strs))
	} else {
		c.data = uncleared(size)
	}
	c.CopyParts(t, pause)
	return c
}

// CopyParts copies the elements of a tensor of the same element type and size to t. It calls pause before each 256 KiB.
func (t *Tensor) CopyParts(from *Tensor, pause func()) {
	data := from.Bytes()
	for lo := 0; lo < len(data); lo += largePart {
		pause()
		copy(t.data[lo:], data[lo:min(lo+largePart, len(data))])
	}
	for lo := 0; lo < len(from.strs); lo += largePart / 16 {
		pause()
		copy(t.strs[lo:], from.strs[lo:min(lo+largePart/16, len(from.strs))])
	}
}

// EqualParts reports whether t and a tensor of the same element type and size have the same bytes, or strings. It calls
// pause before each 256 KiB.
func (t *Tensor) EqualParts(u *Tensor, pause func()) bool {
	a, b := t.Bytes(), u.Bytes()
	for lo := 0; lo < len(a); lo += largePart {
		pause()
		hi := min(lo+largePart, len(a))
		if !bytes.Equal(a[lo:hi], b[lo:hi]) {
			return false
		}
	}
	for i, s := range t.strs {
		if i%(largePart/16) == 0 {
			pause()
		}
		if s != u.strs[i] {
			return false
		}
	}
	return true
}

// Part returns a view of the elements from number lo to number hi, as a vector. For packed types, lo must be a multiple
// of 8.
func (t *Tensor) Part(lo, hi int) *Tensor {
	p := &Tensor{dtype: t.dtype, shape: []int{hi - lo}}
	if t.dtype == String {
		p.strs = t.strs[lo:hi:hi]
		return p
	}
	from, to := lo/8*t.dtype.Bits()+lo%8*t.dtype.Bits()/8, ByteSize(t.dtype, hi)
	p.data = t.Bytes()[from:to:to]
	return p
}

// Equal reports whether a and b have the same dtype, shape and bit patterns.
func Equal(a, b *Tensor) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.dtype == b.dtype && slices.Equal(a.shape, b.shape) && string(a.Bytes()) == string(b.Bytes()) &&
		slices.Equal(a.strs, b.strs)
}

// Filled reports whether every element is the number k; never of tensors that hold other things than real numbers.
func (t *Tensor) Filled(k float64) bool {
	switch t.dtype {
	case Float32:
		return filled(Data[float32](t), k)
	case Float64:
		return filled(Data[float64](t), k)
	case Int64:
		return filled(Data[int64](t), k)
	}
	x, err := t.Float64s()
	return err == nil && filled(x, k)
}

func filled[T float32 | float64 | int64](x []T, k float64) bool {
	return !slices.ContainsFunc(x, func(e T) bool { return float64(e) != k })
}

// ShapeString writes a shape as "[2,3]".
func ShapeString(shape []int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range shape {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, d)
	}
	b.WriteByte(']')
	return b.String()
}
