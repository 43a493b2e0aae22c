// Package safetensors reads and writes the safetensors format: an 8-byte little-endian header length, a JSON header
// with the dtype, shape and position of each tensor, and the data.
//
// It imports ir/tensor and packages of internal only. The tensors of a file that it reads fill the data area without
// overlaps, gaps and trailing bytes, and each length agrees with dtype and shape. Time and
// memory are proportional to the file. Equal content is written as equal bytes.
package safetensors

import (
	"github.com/essmc/essmc/ir/tensor"
)

// Limits on a file. MaxHeader is the format's own limit. The others are far above any model in use.
const (
	MaxHeader   = 100_000_000
	MaxTensors  = 1 << 18 // also of all shards of an index
	MaxMetadata = 1 << 16 // entries
	MaxRank     = 64
	MaxFile     = 1 << 40
)

// metadataKey is the header entry with strings instead of a tensor.
const metadataKey = "__metadata__"

// types lists the format's dtypes in the reference implementation's order, which is that of alignment. Tensors are laid
// out in the opposite order.
var types = []struct {
	name  string
	dtype tensor.DType
}{
	{"BOOL", tensor.Bool},
	{"F4", tensor.Float4E2M1},
	{"U8", tensor.Uint8},
	{"I8", tensor.Int8},
	{"F8_E5M2", tensor.Float8E5M2},
	{"F8_E4M3", tensor.Float8E4M3FN},
	{"F8_E8M0", tensor.Float8E8M0},
	{"F8_E4M3FNUZ", tensor.Float8E4M3FNUZ},
	{"F8_E5M2FNUZ", tensor.Float8E5M2FNUZ},
	{"I16", tensor.Int16},
	{"U16", tensor.Uint16},
	{"F16", tensor.Float16},
	{"BF16", tensor.BFloat16},
	{"I32", tensor.Int32},
	{"U32", tensor.Uint32},
	{"F32", tensor.Float32},
	{"C64", tensor.Complex64},
	{"F64", tensor.Float64},
	{"I64", tensor.Int64},
	{"U64", tensor.Uint64},
}

func dtypeOf(name string) (tensor.DType, bool) {
	for _, t := range types {
		if t.name == name {
			return t.dtype, true
		}
	}
	return tensor.Invalid, false
}

// rankOf returns the position of d in types, or -1 if the format does not have it.
func rankOf(d tensor.DType) int {
	for i, t := range types {
		if t.dtype == d {
			return i
		}
	}
	return -1
}
