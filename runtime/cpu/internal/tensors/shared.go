package tensors

import (
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
)

// ItemNumbers is the number of elements of a work item that only moves them.
const ItemNumbers = 1 << 13

// IntegerPer is the number of elements of a work item.
const IntegerPer = 1 << 15

// reduceItem is the approximate number of elements that a work item reads; reduceWidth is the number of results that
// are computed together.
const (
	ReduceItem  = 1 << 14
	ReduceWidth = 256
)

// ItemFlops is the approximate work of a work item. It takes microseconds, so threads share work evenly.
const ItemFlops = 1 << 19

// ConvItemFlops is the same for work items with much preparation.
const ConvItemFlops = 1 << 21

// MaxMoved is the maximum number of elements of a movement, whose table is made when shapes are bound.
const MaxMoved = 1 << 24

// Cut reports whether parts of tensors of this type are whole bytes.
func Cut(t tensor.DType) bool { return t != tensor.String && !t.Packed() }

// Product returns the product of sizes.
func Product(sizes []int) int {
	n := 1
	for _, k := range sizes {
		n *= k
	}
	return n
}

// Next advances an index, the last axis first. It returns false after the last index.
func Next(index, sizes []int) bool {
	for a := len(index) - 1; a >= 0; a-- {
		if index[a]++; index[a] < sizes[a] {
			return true
		}
		index[a] = 0
	}
	return false
}

// Reinterpret returns the memory of v as elements of another type, whose size is a multiple or a fraction of v's.
func Reinterpret[T, E any](v []E) []T {
	var t T
	var e E
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(e))/int(unsafe.Sizeof(t)))
}

func Int16s(v []float32) []int16 { return Reinterpret[int16](v) }

func Int8s(v []float32) []int8 { return Reinterpret[int8](v) }

func Int32s(v []float32) []int32 { return Reinterpret[int32](v) }

func Uint8s(v []float32) []byte { return Reinterpret[byte](v) }
