package kernel

import "math"

// QuantizeBytes computes y = round(x/scale) + zero, clamped to the range of the bytes; NaN gives 0. The quotient is
// in float32, and is rounded to the nearest integer, ties to even. zero must be in the range of the bytes.
func QuantizeBytes(y Bytes, x []float32, scale float32, zero int) {
	least, most := 0, math.MaxUint8
	if y.Signed {
		least, most = math.MinInt8, math.MaxInt8
	}
	flip, more := y.flip()
	dst := y.Data[:len(x)]
	lo, hi := float32(least-zero), float32(most-zero)
	for i := quantizeBytesWide(dst, x, scale, lo, hi, zero+more, flip); i < len(x); i++ {
		q := float32(math.RoundToEven(float64(x[i] / scale)))
		switch {
		case q != q:
			dst[i] = 0
		default:
			dst[i] = byte(int(min(max(q, lo), hi))+zero+more) ^ flip
		}
	}
}

// DequantizeBytes computes y = (x - zero)·scale.
func DequantizeBytes(y []float32, x Bytes, scale float32, zero int) {
	y = y[:len(x.Data)]
	flip, more := x.flip()
	for i := dequantizeBytesWide(y, x.Data, flip, zero+more, scale); i < len(y); i++ {
		y[i] = float32(int(x.Data[i]^flip)-zero-more) * scale
	}
}

// AddInts computes y += x + more. Sums wrap around.
func AddInts(y, x []int32, more int32) {
	y = y[:len(x)]
	for i := addIntsWide(y, x, more); i < len(x); i++ {
		y[i] += x[i] + more
	}
}

// IntsOfFloats sets y to x, which are integers below 2^31 in magnitude. y may share the memory of x.
func IntsOfFloats(y []int32, x []float32) {
	y = y[:len(x)]
	for i := intsOfFloatsWide(y, x); i < len(x); i++ {
		y[i] = int32(x[i])
	}
}

// FloatsOfInts sets y to x, rounded to float32. y may share the memory of x.
func FloatsOfInts(y []float32, x []int32) {
	y = y[:len(x)]
	for i := floatsOfIntsWide(y, x); i < len(x); i++ {
		y[i] = float32(x[i])
	}
}

// ScaleInts computes y = (x + bias)·scale in float64, rounded to float32. y may share the memory of x.
func ScaleInts(y []float32, x []int32, bias, scale float64) {
	y = y[:len(x)]
	for i := scaleIntsWide(y, x, bias, scale); i < len(x); i++ {
		y[i] = float32((float64(x[i]) + bias) * scale)
	}
}

// Extremes returns the smallest and the greatest element of x; infinity and -infinity if x is empty, and NaN for
// both if there is a NaN.
func Extremes(x []float32) (lo, hi float32) {
	lo, hi = float32(math.Inf(1)), float32(math.Inf(-1))
	a, b, n := extremesWide(x)
	if n > 0 {
		lo, hi = a, b
	}
	for _, v := range x[n:] {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}
