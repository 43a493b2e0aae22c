package kernel

import "math"

// sineMost is the size of numbers from which on their distance to multiples of π has an error.
const sineMost = 1 << 17

// sineBlock is a block of numbers in float64.
type sineBlock [64]float64

// sines sets y to sines, or with shift 0.5 to cosines, for numbers below sineMost. The relative error is below
// 1e-11. Each number is computed separately, so that it has the same bits in any block.
func (y *sineBlock) sines(x []float32, shift float64) {
	const (
		round = 1<<52 + 1<<51 // adding it rounds to an integer
		// parts of π, the first ones of 32 bits, so that multiples up to 2^17 are exact
		a = 3.1415926534682512
		b = 1.2154201012607932e-10
		c = 4.044532497591901e-21
	)
	out := y[:len(x)]
	for i, v := range x {
		x := float64(v)
		n := x*(1/math.Pi) + shift + round
		k := math.Float64bits(n)
		n -= round
		n -= shift
		r := x - n*a - n*b - n*c
		s := r * r
		q := s * s
		// Taylor's series, in parts that do not wait for each other: r is at most π/2
		p := (-1.0/6 + s*(1.0/120)) + q*(-1.0/5040+s*(1.0/362880)) +
			q*q*((-1.0/39916800+s*(1.0/6227020800))+q*(-1.0/1307674368000))
		out[i] = math.Float64frombits(math.Float64bits(r*(1+s*p)) ^ k<<63) // -0 for -0
	}
}

// Sin computes y = sin x. It rounds once. y may be x.
func Sin(y, x []float32) {
	var in64 sineBlock
	for y = y[:len(x)]; len(x) > 0; {
		n := min(len(x), len(in64))
		in64.sines(x[:n], 0)
		for i, v := range x[:n] {
			if !small(v) {
				in64[i] = math.Sin(float64(v))
			}
			y[i] = float32(in64[i])
		}
		y, x = y[n:], x[n:]
	}
}

// Cos computes y = cos x. It rounds once. y may be x.
func Cos(y, x []float32) {
	var in64 sineBlock
	for y = y[:len(x)]; len(x) > 0; {
		n := min(len(x), len(in64))
		in64.sines(x[:n], 0.5)
		for i, v := range x[:n] {
			if !small(v) {
				in64[i] = math.Cos(float64(v))
			}
			y[i] = float32(in64[i])
		}
		y, x = y[n:], x[n:]
	}
}

// Tan computes y = tan x. It rounds once. y may be x.
func Tan(y, x []float32) {
	var in64, cos sineBlock
	for y = y[:len(x)]; len(x) > 0; {
		n := min(len(x), len(in64))
		in64.sines(x[:n], 0)
		cos.sines(x[:n], 0.5)
		for i, v := range x[:n] {
			in64[i] /= cos[i]
			if !small(v) {
				in64[i] = math.Tan(float64(v))
			}
			y[i] = float32(in64[i])
		}
		y, x = y[n:], x[n:]
	}
}

// small reports whether x is below sineMost, and no NaN.
func small(x float32) bool { return x < sineMost && x > -sineMost }

// Sign computes y = -1 or 1 with the sign of x, or x where that is 0 or NaN. y may be x.
func Sign(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		b := math.Float32bits(v)
		size, one := int32(b&^(1<<31)), b&(1<<31)|math.Float32bits(1)
		take := ^uint32((size - 1 | int32(math.Float32bits(float32(math.Inf(1)))) - size) >> 31) // none for 0 and for NaN
		y[i] = math.Float32frombits(one&take | b&^take)
	}
}
