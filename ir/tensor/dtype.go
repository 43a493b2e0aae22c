package tensor

import "fmt"

// DType is an element type. The numbers are those of ONNX's TensorProto.DataType.
type DType uint8

// The element types of ONNX.
const (
	Invalid        DType = 0
	Float32        DType = 1
	Uint8          DType = 2
	Int8           DType = 3
	Uint16         DType = 4
	Int16          DType = 5
	Int32          DType = 6
	Int64          DType = 7
	String         DType = 8
	Bool           DType = 9
	Float16        DType = 10
	Float64        DType = 11
	Uint32         DType = 12
	Uint64         DType = 13
	Complex64      DType = 14
	Complex128     DType = 15
	BFloat16       DType = 16
	Float8E4M3FN   DType = 17
	Float8E4M3FNUZ DType = 18
	Float8E5M2     DType = 19
	Float8E5M2FNUZ DType = 20
	Uint4          DType = 21
	Int4           DType = 22
	Float4E2M1     DType = 23
	Float8E8M0     DType = 24
	Uint2          DType = 25
	Int2           DType = 26
)

// dtypes holds, per DType, the name in ONNX's textual syntax, the usual name, and the bits of one element.
var dtypes = [...]struct {
	onnx, name string
	bits       int
}{
	Invalid:        {"undefined", "undefined", 0},
	Float32:        {"float", "float32", 32},
	Uint8:          {"uint8", "uint8", 8},
	Int8:           {"int8", "int8", 8},
	Uint16:         {"uint16", "uint16", 16},
	Int16:          {"int16", "int16", 16},
	Int32:          {"int32", "int32", 32},
	Int64:          {"int64", "int64", 64},
	String:         {"string", "string", 0},
	Bool:           {"bool", "bool", 8},
	Float16:        {"float16", "float16", 16},
	Float64:        {"double", "float64", 64},
	Uint32:         {"uint32", "uint32", 32},
	Uint64:         {"uint64", "uint64", 64},
	Complex64:      {"complex64", "complex64", 64},
	Complex128:     {"complex128", "complex128", 128},
	BFloat16:       {"bfloat16", "bfloat16", 16},
	Float8E4M3FN:   {"float8e4m3fn", "float8e4m3fn", 8},
	Float8E4M3FNUZ: {"float8e4m3fnuz", "float8e4m3fnuz", 8},
	Float8E5M2:     {"float8e5m2", "float8e5m2", 8},
	Float8E5M2FNUZ: {"float8e5m2fnuz", "float8e5m2fnuz", 8},
	Uint4:          {"uint4", "uint4", 4},
	Int4:           {"int4", "int4", 4},
	Float4E2M1:     {"float4e2m1", "float4e2m1", 4},
	Float8E8M0:     {"float8e8m0", "float8e8m0", 8},
	Uint2:          {"uint2", "uint2", 2},
	Int2:           {"int2", "int2", 2},
}

// DTypes lists every valid element type in the order of their numbers.
func DTypes() []DType {
	all := make([]DType, 0, len(dtypes)-1)
	for d := Float32; int(d) < len(dtypes); d++ {
		all = append(all, d)
	}
	return all
}

// Valid reports whether d is one of the named element types.
func (d DType) Valid() bool { return d > Invalid && int(d) < len(dtypes) }

// String returns the usual name: "float32", "int64", "bfloat16".
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// ONNX returns the name in ONNX's textual syntax: "float", "double", "int64".
func (d DType) ONNX() string {
	if int(d) >= len(dtypes) {
		return d.String()
	}
	return dtypes[d].onnx
}

// Bits returns the size of one element in bits; 0 for strings, whose size varies.
func (d DType) Bits() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].bits
}

// ParseDType reads a name as String or ONNX writes it.
func ParseDType(s string) (DType, error) {
	for d := Float32; int(d) < len(dtypes); d++ {
		if dtypes[d].onnx == s || dtypes[d].name == s {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("unknown element type %q", s)
}

// IsFloat reports whether d is a real floating-point type of any width.
func (d DType) IsFloat() bool {
	switch d {
	case Float16, Float32, Float64, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0,
		Float4E2M1:
		return true
	}
	return false
}

// IsInt reports whether d is a signed or unsigned integer type of any width.
func (d DType) IsInt() bool {
	switch d {
	case Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Int4, Uint4, Int2, Uint2:
		return true
	}
	return false
}

// IsComplex reports whether d is a complex type.
func (d DType) IsComplex() bool { return d == Complex64 || d == Complex128 }

// Packed reports whether several elements share a byte (4-bit and 2-bit types).
func (d DType) Packed() bool { return d.Valid() && d.Bits() > 0 && d.Bits() < 8 }

// constants are the names of the types in Go, by number.
var constants = [...]string{"Invalid", "Float32", "Uint8", "Int8", "Uint16", "Int16", "Int32", "Int64", "String",
	"Bool", "Float16",
	"Float64", "Uint32", "Uint64", "Complex64", "Complex128", "BFloat16", "Float8E4M3FN", "Float8E4M3FNUZ",
	"Float8E5M2",
	"Float8E5M2FNUZ", "Uint4", "Int4", "Float4E2M1", "Float8E8M0", "Uint2", "Int2"}

// GoName returns the name of the constant as programs write it: "tensor.Float32".
func (d DType) GoName() string {
	if int(d) >= len(constants) {
		return d.String()
	}
	return "tensor." + constants[d]
}
