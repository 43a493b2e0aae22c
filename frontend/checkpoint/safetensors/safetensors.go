// Package safetensors reads and writes the safetensors format: an 8-byte little-endian header length, a JSON header that
// names each tensor's dtype, shape and place, and the data.
//
// It imports ir/tensor and internal/atomicfile only. What always holds: a file that was read is exactly what its header
// says, since the tensors tile the data area without overlap, hole or trailing byte, and every length is what dtype and
// shape need; nothing is allocated beyond the file's own size; and equal content is written as equal bytes.
package safetensors

import (
	"github.com/essmc/essmc/ir/tensor"
)

// Limits on what a file may ask for. MaxHeader is the format's own; the others are far above any model in use.
const (
	MaxHeader  = 100_000_000
	MaxTensors = 1 << 20
	MaxRank    = 64
	MaxFile    = 1 << 40
)

// metadataKey is the header entry that holds strings instead of a tensor.
const metadataKey = "__metadata__"

// types lists the format's dtypes in the reference implementation's order, which is the order of alignment; files are laid
// out by descending position here.
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

// rankOf is the position of d in types; -1 when the format has no name for it.
func rankOf(d tensor.DType) int {
	for i, t := range types {
		if t.dtype == d {
			return i
		}
	}
	return -1
}
