package kernel

import "math"

// HardSigmoid computes y = min(max(alpha·x + beta, 0), 1); NaN for NaN.
func HardSigmoid(y, x []float32, alpha, beta float32) {
	y = y[:len(x)]
	for i := hardSigmoidWide(y, x, alpha, beta); i < len(x); i++ {
		y[i] = min(max(alpha*x[i]+beta, 0), 1)
	}
}

// HardSwish computes y = x·min(max(x/6 + 1/2, 0), 1).
func HardSwish(y, x []float32) {
	const alpha, beta = 1.0 / 6, 0.5
	y = y[:len(x)]
	for i := hardSwishWide(y, x, alpha, beta); i < len(x); i++ {
		y[i] = x[i] * min(max(alpha*x[i]+beta, 0), 1)
	}
}

// ScaleShift computes y = scale·x + shift.
func ScaleShift(y, x []float32, scale, shift float32) {
	y = y[:len(x)]
	for i := scaleShiftWide(y, x, scale, shift); i < len(x); i++ {
		y[i] = scale*x[i] + shift
	}
}

// Log computes y = ln x, rounded once; -∞ for 0, NaN below.
func Log(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = float32(math.Log(float64(v)))
	}
}

// Square computes y = x².
func Square(y, x []float32) { Mul(y, x, x) }

// Reciprocal computes y = 1/x.
func Reciprocal(y, x []float32) { DivIntoS(y, x, 1) }

// Below: arithmetic with a number s.

// AddS computes y = a + s.
func AddS(y, a []float32, s float32) {
	y = y[:len(a)]
	for i := addSWide(y, a, s); i < len(a); i++ {
		y[i] = a[i] + s
	}
}

// SubS computes y = a - s.
func SubS(y, a []float32, s float32) {
	y = y[:len(a)]
	for i := subSWide(y, a, s); i < len(a); i++ {
		y[i] = a[i] - s
	}
}

// SubFromS computes y = s - a.
func SubFromS(y, a []float32, s float32) {
	y = y[:len(a)]
	for i := subFromSWide(y, a, s); i < len(a); i++ {
		y[i] = s - a[i]
	}
}

// MulS computes y = a·s.
func MulS(y, a []float32, s float32) {
	y = y[:len(a)]
	for i := mulSWide(y, a, s); i < len(a); i++ {
		y[i] = a[i] * s
	}
}

// DivS computes y = a/s.
func DivS(y, a []float32, s float32) {
	y = y[:len(a)]
	for i := divSWide(y, a, s); i < len(a); i++ {
		y[i] = a[i] / s
	}
}

// DivIntoS computes y = s/a.
func DivIntoS(y, a []float32, s float32) {
	y = y[:len(a)]
	for i := divIntoSWide(y, a, s); i < len(a); i++ {
		y[i] = s / a[i]
	}
}

// MaxS computes y = max(a, s); NaN if either is NaN.
func MaxS(y, a []float32, s float32) {
	if s != s {
		fill(y[:len(a)], s)
		return
	}
	Clip(y, a, s, float32(math.Inf(1)))
}

// MinS computes y = min(a, s); NaN if either is NaN.
func MinS(y, a []float32, s float32) {
	if s != s {
		fill(y[:len(a)], s)
		return
	}
	Clip(y, a, float32(math.Inf(-1)), s)
}

func fill(y []float32, s float32) {
	for i := range y {
		y[i] = s
	}
}

// sumBlock is the largest number of terms that Sum adds in float32.
const sumBlock = 512

// Sum returns the sum of x. It adds blocks in float32, and the sums of blocks in float64.
func Sum(x []float32) float64 { return AddSum(0, x) }

// AddSum continues a sum: total is the sum of the numbers before x, whose count is a multiple of 512.
func AddSum(total float64, x []float32) float64 {
	for len(x) > 0 {
		block := x[:min(len(x), sumBlock)]
		x = x[len(block):]
		s, n := sumWide(block)
		part := float64(s)
		for _, v := range block[n:] {
			part += float64(v)
		}
		total += part
	}
	return total
}

// Greatest returns the greatest element of x; NaN if there is a NaN, -∞ if x is empty.
func Greatest(x []float32) float32 {
	best, n := greatestWide(x)
	if n == 0 {
		best = float32(math.Inf(-1))
	}
	for _, v := range x[n:] {
		best = max(best, v)
	}
	return best
}

// Softmax computes the softmax of one row: y = eˣ⁻ᵐ/Σeˣ⁻ᵐ, where m is the greatest element of x. y may be x.
func Softmax(y, x []float32) {
	y = y[:len(x)]
	SubS(y, x, Greatest(x))
	Exp(y, y)
	MulS(y, y, float32(1/Sum(y)))
}

// ShortRow is the largest row of ShortSoftmax.
const ShortRow = 7

// ShortSoftmax computes the softmax of rows of f numbers, at most ShortRow, with sums in float64. y may be x.
func ShortSoftmax(y, x []float32, f int) {
	y = y[:len(x)]
	for at := 0; at < len(x); at += f {
		row := x[at : at+f]
		most := row[0]
		for _, v := range row[1:] {
			most = max(most, v)
		}
		for i, v := range row {
			y[at+i] = v - most
		}
	}
	Exp(y, y)
	for at := 0; at < len(y); at += f {
		row := y[at : at+f]
		sum := 0.0
		for _, v := range row {
			sum += float64(v)
		}
		inv := float32(1 / sum)
		for i, v := range row {
			row[i] = v * inv
		}
	}
}

// LogSoftmax computes the logarithm of Softmax. y may be x.
func LogSoftmax(y, x []float32) {
	y = y[:len(x)]
	SubS(y, x, Greatest(x))
	var part [256]float32
	total := 0.0
	for rest := y; len(rest) > 0; {
		n := min(len(rest), len(part))
		Exp(part[:n], rest[:n])
		total += Sum(part[:n])
		rest = rest[n:]
	}
	SubS(y, y, float32(math.Log(total)))
}
