package tensor

import (
	"fmt"
	"math"
	"strings"
)

// ConvertExact is Convert with an error if a number does not fit into d: if it is beyond the range (1e300 as float32,
// 300 as uint8, NaN as an integer), or has a fraction that an integer would lose. Floats are rounded to nearest, which
// is not an error.
func (t *Tensor) ConvertExact(d DType) (*Tensor, error) {
	if t.dtype != d && t.dtype != String && d != String && !t.dtype.IsComplex() && !d.IsComplex() {
		if err := t.fits(d); err != nil {
			return nil, err
		}
	}
	return t.Convert(d, false)
}

// fits returns an error if an element does not fit into d.
func (t *Tensor) fits(d DType) error {
	wrong := func(i int, x any) error { return fmt.Errorf("element %d: %v does not fit into %v", i, x, d) }
	lo, end := bounds(d)
	if t.dtype == Uint64 && d.IsInt() {
		for i, x := range Data[uint64](t) {
			if end < 1<<64 && x > uint64(end)-1 {
				return wrong(i, x)
			}
		}
		return nil
	}
	if t.dtype == Int64 && d.IsInt() {
		for i, x := range Data[int64](t) {
			if float64(x) < lo || x > 0 && end < 1<<63 && x > int64(end)-1 {
				return wrong(i, x)
			}
		}
		return nil
	}
	from, err := t.Float64s()
	if err != nil {
		return err
	}
	var to []float64
	if !d.IsInt() && d != Bool {
		out, err := fromFloat64s(d, from, t.shape, false)
		if err != nil {
			return err
		}
		if to, err = out.Float64s(); err != nil {
			return err
		}
	}
	for i, x := range from {
		bad := x != math.Trunc(x) || x < lo || x >= end
		if to != nil {
			bad = finite(x) && (!finite(to[i]) || d == Float4E2M1 && math.Abs(x) >= 7)
		}
		if bad {
			return wrong(i, x)
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsInf(x, 0) && !math.IsNaN(x) }

// bounds returns the least number of an integer type or of bool, and the first one behind the largest.
func bounds(d DType) (lo, end float64) {
	switch {
	case d == Bool:
		return 0, 2
	case strings.HasPrefix(d.String(), "uint"):
		return 0, math.Ldexp(1, d.Bits())
	}
	return -math.Ldexp(1, d.Bits()-1), math.Ldexp(1, d.Bits()-1)
}
