package kernel

import (
	"math"
	"unsafe"
)

// Sums of products of bytes become bytes: each is scaled, rounded to the nearest integer, ties to even, and moved by a zero
// point; what lies outside of the range of the bytes becomes its end, and NaN 0.

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

// ScaleBytes computes y of (x + bias)·scale, which is computed in float64 and rounded to float32. It may overwrite x.
func ScaleBytes(y Bytes, x []int32, bias, scale float64, zero int) {
	r, dst := y.rangeOf(zero), y.Data[:len(x)]
	done := 0
	if finite(bias) && finite(scale) {
		done = scaleBytesWide(dst, x, bias, scale, r.least, r.most, r.zero, r.flip)
	}
	x, dst = x[done:], dst[done:]
	if !wide() {
		for i, v := range x {
			dst[i] = r.of(float32((float64(v) + bias) * scale))
		}
		return
	}
	z := numbersOf(x)
	ScaleInts(z, x, bias, scale)
	QuantizeBytes(Bytes{Data: dst, Signed: y.Signed}, z, 1, zero)
}

// Requantize computes y of (x + add + more)·factor/unit. The sum wraps around, and each operation rounds to float32. It may
// overwrite x.
func Requantize(y Bytes, x, add []int32, more int32, factor []float32, unit float32, zero int) {
	r, dst := y.rangeOf(zero), y.Data[:len(x)]
	add, factor = add[:len(x)], factor[:len(x)]
	done := 0
	if finite(unit) && unit != 0 && Finite(factor) {
		done = requantizeWide(dst, x, add, more, factor, unit, r.least, r.most, r.zero, r.flip)
	}
	x, add, factor, dst = x[done:], add[done:], factor[done:], dst[done:]
	if !wide() {
		for i, v := range x {
			dst[i] = r.of(float32(float32(v+add[i]+more)*factor[i]) / unit)
		}
		return
	}
	AddInts(x, add, more)
	z := numbersOf(x)
	FloatsOfInts(z, x)
	Mul(z, z, factor)
	QuantizeBytes(Bytes{Data: dst, Signed: y.Signed}, z, unit, zero)
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
		if !(s >= 0x1p-60 && s <= 0x1p60) { // no NaN arises
			return 0
		}
	}
	_, more := y.flip()
	return pairBytesWide(p.Multiply, y.Data, a, b, p, y.rangeOf(p.Zero[2]), more)
}

func finite[T float32 | float64](x T) bool { return x-x == 0 }

// numbersOf returns the memory of x as float32.
func numbersOf(x []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
