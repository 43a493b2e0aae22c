package ops

import (
	"math"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// The functions of this file allocate for an evaluation. They charge the bytes to its budget before they allocate, and
// panic with an *ir.BudgetError if these do not fit (ir.EvalCtx.Charge). A nil context has no budget.

// charge charges n elements of a size in bytes.
func charge(c *ir.EvalCtx, n, size int) {
	if c == nil || c.Budget == nil || n <= 0 {
		return
	}
	if size > 0 && int64(n) > math.MaxInt64/2/int64(size) {
		c.Charge(math.MaxInt64 / 2)
	}
	c.Charge(int64(n) * int64(size))
}

// Make is make([]T, n).
func Make[T any](c *ir.EvalCtx, n int) []T {
	var z T
	charge(c, n, int(unsafe.Sizeof(z)))
	return make([]T, n)
}

// Append is append(list, x). It charges the growth of the list.
func Append[T any](c *ir.EvalCtx, list []T, x ...T) []T {
	if n := len(list) + len(x); n > cap(list) {
		grown := Make[T](c, max(n, 2*cap(list)))[:len(list)]
		copy(grown, list)
		list = grown
	}
	return append(list, x...)
}

// Clone is slices.Clone(v).
func Clone[T any](c *ir.EvalCtx, v []T) []T {
	var z T
	charge(c, len(v), int(unsafe.Sizeof(z)))
	return slices.Clone(v)
}

// Repeat is slices.Repeat(v, count).
func Repeat[T any](c *ir.EvalCtx, v []T, count int) []T {
	var z T
	if count > 0 && len(v) > math.MaxInt/count {
		charge(c, math.MaxInt, max(1, int(unsafe.Sizeof(z))))
	}
	charge(c, len(v)*count, int(unsafe.Sizeof(z)))
	return slices.Repeat(v, count)
}

// New is tensor.New(d, shape...).
func New(c *ir.EvalCtx, d tensor.DType, shape ...int) *tensor.Tensor {
	if c != nil && c.Budget != nil {
		if n, err := tensor.Size(shape); err == nil && d.Valid() {
			chargeElems(c, d, n)
		}
	}
	return tensor.New(d, shape...)
}

// stringSize is the size of a string's header.
const stringSize = int(unsafe.Sizeof(""))

// ItemSize bounds the bytes of a tensor beside its elements: the shape, and the alignment of the storage. It counts where
// the data say how many tensors there are: for the items of sequences, and the parts of others.
const ItemSize = 192

// chargeElems charges a tensor of n elements.
func chargeElems(c *ir.EvalCtx, d tensor.DType, n int) {
	if d == tensor.String {
		charge(c, n, stringSize)
		return
	}
	charge(c, tensor.ByteSize(d, n), 1)
}

// Copy is t.Clone().
func Copy(c *ir.EvalCtx, t *tensor.Tensor) *tensor.Tensor {
	chargeElems(c, t.DType(), t.Len())
	return t.Clone()
}

// Float64s is t.Float64s().
func Float64s(c *ir.EvalCtx, t *tensor.Tensor) ([]float64, error) {
	charge(c, t.Len(), 8)
	return t.Float64s()
}

// Int64s is t.Int64s().
func Int64s(c *ir.EvalCtx, t *tensor.Tensor) ([]int64, error) {
	if t.DType() != tensor.Int64 && t.DType() != tensor.Uint64 {
		charge(c, t.Len(), 8) // in between they are float64
	}
	charge(c, t.Len(), 8)
	return t.Int64s()
}

// FromFloat64s is tensor.FromFloat64s(d, v, shape...).
func FromFloat64s(c *ir.EvalCtx, d tensor.DType, v []float64, shape ...int) (*tensor.Tensor, error) {
	if d.Valid() {
		chargeElems(c, d, len(v))
	}
	return tensor.FromFloat64s(d, v, shape...)
}

// textSize bounds the bytes of a number's text beside the string's header.
const textSize = 24

// Convert is t.Convert(d, saturate).
func Convert(c *ir.EvalCtx, t *tensor.Tensor, d tensor.DType, saturate bool) (*tensor.Tensor, error) {
	if t.DType() != d && d.Valid() {
		charge(c, t.Len(), 8) // in between they are float64 or int64
		if chargeElems(c, d, t.Len()); d == tensor.String {
			charge(c, t.Len(), textSize)
		}
	}
	return t.Convert(d, saturate)
}

// SizeOf returns the bytes of a datum, each part as if it shared nothing with others.
func SizeOf(d tensor.Datum) int64 {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d == nil {
			return 0
		}
		n := int64(0)
		if d.DType() == tensor.String {
			for _, s := range d.Strings() {
				n += int64(stringSize + len(s))
			}
			return n
		}
		return n + int64(tensor.ByteSize(d.DType(), d.Len()))
	case *tensor.Sequence:
		if d == nil {
			return 0
		}
		var n int64
		for _, item := range d.Items {
			n += ItemSize + SizeOf(item)
		}
		return n
	case *tensor.Optional:
		if d != nil {
			return SizeOf(d.Value)
		}
	}
	return 0
}
