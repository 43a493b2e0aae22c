package kernel

import (
	"math"
	"slices"
	"unsafe"
)

// Sums of products of bytes become bytes: each is scaled, rounded to the nearest integer, ties to even, and shifted
// by a zero point. Results are clamped to the range of the bytes; NaN gives 0.

// byteRange is the range of bytes with a zero point, and how they are written.
type byteRange struct {
	least, most float32
	zero        int
	flip        byte
}

func (b Bytes) rangeOf(zero int) byteRange {
	least, most := 0, math.MaxUint8
	if b.Signed {
		least, most = math.MinInt8, math.MaxInt8
	}
	flip, more := b.flip()
	return byteRange{float32(least - zero), float32(most - zero), zero + more, flip}
}

func (r byteRange) of(v float32) byte {
	q := float32(math.RoundToEven(float64(v)))
	if q != q {
		return 0
	}
	return byte(int(min(max(q, r.least), r.most))+r.zero) ^ r.flip
}

// RowScale turns rows of sums into bytes: (x + Bias)·Scale, which is computed in float64 and rounded to float32.
type RowScale struct {
	Bias, Scale []float64 // one per row, or one for all
	// Exact: biases and their sums with each number are integers of at most MostExact, and scales are float32
	// numbers, so that float32 gives the same result. Floats is faster then.
	Exact bool
	Zero  int
}

// MostExact is the largest magnitude of integers that float32 has all of.
const MostExact = 1 << 24

// Ints computes n bytes of each of rows of x. Rows of x and y have strides ldx and ldy, in elements. It may
// overwrite x.
func (s *RowScale) Ints(y Bytes, ldy int, x []int32, ldx, rows, n int) {
	if rows == 0 || n == 0 || s.finite() && scaleRowsWide(s, y, ldy, x, ldx, rows, n) {
		return
	}
	for i := range rows {
		s.row(Bytes{y.Data[i*ldy : i*ldy+n], y.Signed}, x[i*ldx:i*ldx+n], i)
	}
}

// Floats is Ints for numbers that are integers below 2^31 in magnitude.
func (s *RowScale) Floats(y Bytes, ldy int, x []float32, ldx, rows, n int) {
	if rows == 0 || n == 0 || s.Exact && s.finite() && scaleFloatRowsWide(s, y, ldy, x, ldx, rows, n) {
		return
	}
	ints := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
	for i := range rows {
		row := ints[i*ldx : i*ldx+n]
		IntsOfFloats(row, x[i*ldx:i*ldx+n])
		s.row(Bytes{y.Data[i*ldy : i*ldy+n], y.Signed}, row, i)
	}
}

func (s *RowScale) finite() bool {
	return !slices.ContainsFunc(s.Bias, infinite) && !slices.ContainsFunc(s.Scale, infinite)
}

func infinite(x float64) bool { return !finite(x) }

func (s *RowScale) row(y Bytes, x []int32, i int) {
	bias, scale := s.Bias[min(i, len(s.Bias)-1)], s.Scale[min(i, len(s.Scale)-1)]
	if machine.vectors {
		z := numbersOf(x)
		ScaleInts(z, x, bias, scale)
		QuantizeBytes(y, z, 1, s.Zero)
		return
	}
	r := y.rangeOf(s.Zero)
	for j, v := range x {
		y.Data[j] = r.of(float32((float64(v) + bias) * scale))
	}
}

// ColumnScale turns sums of columns into bytes: (x + add)·Factor/Unit. The sum wraps around, and each operation rounds to
// float32.
type ColumnScale struct {
	factor []float32
	unit   float32
	zero   int
	usual  bool // no NaN arises
}

// NewColumnScale returns the ColumnScale for factors, one per column. It keeps the slice.
func NewColumnScale(factor []float32, unit float32, zero int) ColumnScale {
	return ColumnScale{factor, unit, zero, usual(unit) && Finite(factor)}
}

// Bytes computes y of x + add + more, of columns from one on. It may overwrite x.
func (s *ColumnScale) Bytes(y Bytes, x, add []int32, more int32, from int) {
	r, dst := y.rangeOf(s.zero), y.Data[:len(x)]
	add, factor := add[:len(x)], s.factor[from:from+len(x)]
	done := 0
	if s.usual {
		done = requantizeWide(dst, x, add, more, factor, s.unit, r.least, r.most, r.zero, r.flip)
	}
	x, add, factor, dst = x[done:], add[done:], factor[done:], dst[done:]
	if !machine.vectors {
		for i, v := range x {
			dst[i] = r.of(float32(float32(v+add[i]+more)*factor[i]) / s.unit)
		}
		return
	}
	AddInts(x, add, more)
	z := numbersOf(x)
	FloatsOfInts(z, x)
	Mul(z, z, factor)
	QuantizeBytes(Bytes{Data: dst, Signed: y.Signed}, z, s.unit, s.zero)
}

// BytePair is a sum or a product of bytes a and b, which become numbers by scales and zero points, and again bytes.
type BytePair struct {
	Multiply bool
	Scale    [3]float32 // of a, b and y
	Zero     [3]int
}

// Run computes y of as many bytes as it takes at once, and returns their number; it may be 0. All of them are signed, or
// none is. The numbers, the result and its quotient by the scale of y are each rounded to float32.
func (p *BytePair) Run(y Bytes, a, b []byte) int {
	for _, s := range p.Scale {
		if !usual(s) { // NaN may arise
			return 0
		}
	}
	_, more := y.flip()
	return pairBytesWide(p.Multiply, y.Data, a, b, p, y.rangeOf(p.Zero[2]), more)
}

// usual reports whether quotients by a scale and products with its reciprocal differ by at most one unit in the last
// place.
func usual(scale float32) bool { return scale >= 0x1p-60 && scale <= 0x1p60 }

func finite[T float32 | float64](x T) bool { return x-x == 0 }

// numbersOf returns the memory of x as float32.
func numbersOf(x []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
