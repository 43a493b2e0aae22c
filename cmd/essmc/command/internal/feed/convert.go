package feed

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// converted returns a tensor with the element type of the port. Numbers that the type does not have are rounded, which
// note states. It is an error if a value would be another one: NaN, fractions and large numbers do not become integers,
// and finite numbers do not become infinite. A tensor that no conversion fits is returned as it is; the runtime has the
// message for it.
func converted(t *tensor.Tensor, p runtime.Port, wide bool) (out *tensor.Tensor, note string, err error) {
	want, ok := ir.AsTensor(p.Type)
	if !ok {
		return t, "", nil
	}
	if !want.NoRank && !ir.Compatible(&ir.TensorType{Elem: want.Elem, Shape: ir.Of(t).Shape}, want) {
		return t, "", nil // the error about the shape comes first
	}
	have, to := t.DType(), want.Elem
	if wide && to == tensor.Float32 {
		to = tensor.Float64
	}
	if have == to || have == tensor.String || to == tensor.String || have.IsComplex() != to.IsComplex() {
		return t, "", nil
	}
	if to.IsComplex() {
		out, err = t.Convert(to, false)
		return out, "", err
	}
	out, err = t.Convert(to, false)
	if err != nil {
		return nil, "", err
	}
	var n int
	if have.IsInt() || have == tensor.Bool {
		n, err = changedIntegers(t, out)
	} else {
		n, err = changedFloats(t, out)
	}
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("cannot convert %v to %v: %w", have, to, err)
	case n > 0:
		note = fmt.Sprintf("converted from %v to %v: %d of %d values are rounded", have, to, n, t.Len())
	}
	return out, note, nil
}

// changedIntegers counts the integers that a conversion to a type of floating-point numbers has rounded. Integers that
// another type of integers does not have are an error.
func changedIntegers(from, to *tensor.Tensor) (int, error) {
	v, err := from.Int64s()
	if err != nil {
		return 0, err
	}
	large := from.DType() == tensor.Uint64 // a negative number stands for one above the largest of int64
	text := func(x int64) string {
		if large {
			return fmt.Sprint(uint64(x))
		}
		return fmt.Sprint(x)
	}
	n := 0
	if to.DType().IsInt() || to.DType() == tensor.Bool {
		back, err := to.Int64s()
		if err != nil {
			return 0, err
		}
		other := to.DType() == tensor.Uint64
		for i, x := range v {
			if back[i] != x || x < 0 && large != other {
				return 0, fmt.Errorf("%s, at %s, does not fit", text(x), place(from, i))
			}
		}
		return 0, nil
	}
	back, err := to.Float64s()
	if err != nil {
		return 0, err
	}
	for i, x := range v {
		switch y := back[i]; {
		case math.IsInf(y, 0) || math.IsNaN(y):
			return 0, fmt.Errorf("%s, at %s, does not fit", text(x), place(from, i))
		case large && (y >= 1<<64 || uint64(y) != uint64(x)) || !large && (y >= 1<<63 || int64(y) != x):
			n++
		}
	}
	return n, nil
}

// changedFloats counts the numbers that a conversion has rounded.
func changedFloats(from, to *tensor.Tensor) (int, error) {
	v, err := from.Float64s()
	if err != nil {
		return 0, err
	}
	back, err := to.Float64s()
	if err != nil {
		return 0, err
	}
	n := 0
	for i, x := range v {
		y := back[i]
		switch {
		case x == y || math.IsNaN(x) && math.IsNaN(y):
		case !to.DType().IsFloat():
			if x == math.Trunc(x) || math.IsNaN(x) {
				return 0, fmt.Errorf("%v, at %s, does not fit", x, place(from, i))
			}
			return 0, fmt.Errorf("%v, at %s, is not an integer", x, place(from, i))
		case math.IsNaN(x) || math.IsNaN(y) || math.IsInf(x, 0) || math.IsInf(y, 0):
			exact := ""
			if from.DType() == tensor.Float64 && to.DType() == tensor.Float32 {
				exact = "; scale the numbers, or compute in float64: --device ref --precision float64"
			}
			return 0, fmt.Errorf("%v, at %s, does not fit%s", x, place(from, i), exact)
		default:
			n++
		}
	}
	return n, nil
}

// place returns the index of element i as text.
func place(t *tensor.Tensor, i int) string {
	index := make([]int, t.Rank())
	for k := t.Rank() - 1; k >= 0; k-- {
		index[k], i = i%t.Dim(k), i/t.Dim(k)
	}
	return tensor.ShapeString(index)
}
