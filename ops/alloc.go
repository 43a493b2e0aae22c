package ops

import (
	"math"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// The functions of this file allocate for an evaluation. They check its context between parts that they clear, copy
// or convert (ir.EvalCtx.Step). They charge the bytes to its budget before they allocate, and panic with an
// *ir.BudgetError if these do not fit (ir.EvalCtx.Charge). A nil context has no budget.

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
	size := int(unsafe.Sizeof(z))
	charge(c, n, size)
	if n > large && isNumber(z) {
		return unsafe.Slice((*T)(cleared(c, n*size)), n)
	}
	return make([]T, n)
}

// large is the number of elements from which on allocations go in parts.
const large = 1 << 15

// cleared allocates bytes of zeros in parts.
func cleared(c *ir.EvalCtx, bytes int) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(tensor.AlignedParts(bytes, c.Pause)))
}

// isNumber reports whether z is a number, or a bool: whether its type holds no pointers.
func isNumber(z any) bool {
	switch z.(type) {
	case float32, float64, int, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, complex64, complex128,
		tensor.F16, tensor.BF16, tensor.F8:
		return true
	}
	return false
}

// Append is append(list, x). It charges the growth of the list.
func Append[T any](c *ir.EvalCtx, list []T, x ...T) []T {
	if n := len(list) + len(x); n > cap(list) {
		grown := Make[T](c, max(n, 2*cap(list)))[:len(list)]
		Put(c, grown, list)
		list = grown
	}
	if len(x) <= ir.Pace {
		return append(list, x...)
	}
	list = list[:len(list)+len(x)]
	Put(c, list[len(list)-len(x):], x)
	return list
}

// Clone is slices.Clone(v).
func Clone[T any](c *ir.EvalCtx, v []T) []T {
	if len(v) > large {
		w := Make[T](c, len(v))
		Put(c, w, v)
		return w
	}
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
	if n := len(v) * count; n > large && isNumber(z) {
		w := Make[T](c, n)
		for at := Put(c, w, v); at < n; { // double the filled part
			at += Put(c, w[at:], w[:at])
		}
		return w
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
	if c != nil {
		return tensor.NewParts(c.Pause, d, shape...)
	}
	return tensor.New(d, shape...)
}

// stringSize is the size of a string's header.
const stringSize = int(unsafe.Sizeof(""))

// ItemSize is an upper bound for the size of a tensor besides its elements: the shape, and the alignment of the
// storage. It matters if the number of tensors depends on data: for the items of sequences, and the parts of others.
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
	return t.CloneParts(c.Pause)
}

// CopyOf returns a datum that shares nothing with d.
func CopyOf(c *ir.EvalCtx, d tensor.Datum) tensor.Datum {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d != nil {
			return Copy(c, d)
		}
	case *tensor.Sequence:
		if d != nil {
			items := Make[tensor.Datum](c, len(d.Items))
			for i := range Costly(c, len(d.Items), 100) {
				items[i] = CopyOf(c, d.Items[i])
			}
			return &tensor.Sequence{Items: items}
		}
	case *tensor.Optional:
		if d != nil {
			return &tensor.Optional{Value: CopyOf(c, d.Value)}
		}
	}
	return nil
}

// Float64s is t.Float64s().
func Float64s(c *ir.EvalCtx, t *tensor.Tensor) ([]float64, error) {
	if n := t.Len(); n > large {
		v := Make[float64](c, n)
		for lo, hi := range Parts(c, n) {
			if err := t.ReadFloat64s(v[lo:hi], lo); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
	charge(c, t.Len(), 8)
	return t.Float64s()
}

// Int64s is t.Int64s().
func Int64s(c *ir.EvalCtx, t *tensor.Tensor) ([]int64, error) {
	if t.DType() != tensor.Int64 && t.DType() != tensor.Uint64 {
		charge(c, t.Len(), 8) // in between they are float64
	}
	if n := t.Len(); n > large {
		v := Make[int64](c, n)
		for lo, hi := range Parts(c, n) {
			part, err := t.Part(lo, hi).Int64s()
			if err != nil {
				return nil, err
			}
			copy(v[lo:], part)
		}
		return v, nil
	}
	charge(c, t.Len(), 8)
	return t.Int64s()
}

// FromFloat64s is tensor.FromFloat64s(d, v, shape...).
func FromFloat64s(c *ir.EvalCtx, d tensor.DType, v []float64, shape ...int) (*tensor.Tensor, error) {
	if d.Valid() {
		chargeElems(c, d, len(v))
	}
	if n, err := tensor.Size(shape); err == nil && n == len(v) && n > large && d.Valid() && d != tensor.String {
		t := tensor.NewParts(c.Pause, d, shape...)
		for lo, hi := range Parts(c, n) {
			if err := t.WriteFloat64s(lo, v[lo:hi]); err != nil {
				return nil, err
			}
		}
		return t, nil
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
	if t.Len() <= ir.Pace || t.DType() == d || !d.Valid() {
		return t.Convert(d, saturate)
	}
	out := tensor.NewParts(c.Pause, d, t.Shape()...)
	for lo, hi := range Parts(c, t.Len()) {
		part, err := t.Part(lo, hi).Convert(d, saturate)
		if err != nil {
			return nil, err
		}
		to := out.Part(lo, hi)
		copy(to.Bytes(), part.Bytes())
		copy(to.Strings(), part.Strings())
	}
	return out, nil
}

// SizeOf returns the bytes of a datum, each part as if it shared nothing with others.
func SizeOf(d tensor.Datum) int64 { return SizeIn(nil, d) }

// SizeIn is SizeOf during an evaluation, whose context ends the visit of many strings or items.
func SizeIn(c *ir.EvalCtx, d tensor.Datum) int64 {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d == nil {
			return 0
		}
		n := int64(0)
		if d.DType() == tensor.String {
			for _, s := range All(c, d.Strings()) {
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
		for i := range Costly(c, len(d.Items), 10) {
			n += ItemSize + SizeIn(c, d.Items[i])
		}
		return n
	case *tensor.Optional:
		if d != nil {
			return SizeIn(c, d.Value)
		}
	}
	return 0
}
