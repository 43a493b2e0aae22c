package kernel

import "math"

// Activations, and rounding to integers. y may be x.

// Expm1 computes y = eˣ - 1 with an error of at most 2.1 units in the last place. The portable variant rounds once.
func Expm1(y, x []float32) {
	y = y[:len(x)]
	for i := expm1Wide(y, x); i < len(x); i++ {
		y[i] = float32(math.Expm1(float64(x[i])))
	}
}

// Elu computes y = above·x, or below·(eˣ - 1) for x below zero, with an error of at most 2.1 units in the last place.
// The portable variant rounds once.
func Elu(y, x []float32, below, above float32) {
	y = y[:len(x)]
	for i := eluWide(y, x, below, above); i < len(x); i++ {
		if v := x[i]; v < 0 {
			y[i] = float32(float64(below) * math.Expm1(float64(v)))
		} else {
			y[i] = above * v
		}
	}
}

// Softplus computes y = ln(1 + eˣ) with an error of at most 2.1 units in the last place, and 0 for eˣ below the normal
// numbers. The portable variant rounds once.
func Softplus(y, x []float32) {
	y = y[:len(x)]
	for i := softplusWide(y, x); i < len(x); i++ {
		a := float64(x[i])
		y[i] = float32(max(a, 0) + math.Log1p(exp64(-math.Abs(a))))
	}
}

// Mish computes y = x·tanh(ln(1 + eˣ)) with an error of at most four units in the last place, and -0 for eˣ below the
// normal numbers. The portable variant rounds once.
func Mish(y, x []float32) {
	y = y[:len(x)]
	for i := mishWide(y, x); i < len(x); i++ {
		a := float64(x[i])
		e := exp64(min(a, 20))
		n := e * (e + 2) // tanh(ln(1 + e)) is n/(n + 2)
		y[i] = float32(a * (n / (n + 2)))
	}
}

// ThresholdedRelu computes y = x, or 0 for x not above alpha.
func ThresholdedRelu(y, x []float32, alpha float32) {
	y = y[:len(x)]
	for i := thresholdedReluWide(y, x, alpha); i < len(x); i++ {
		v := x[i]
		if !(v > alpha) {
			v = 0
		}
		y[i] = v
	}
}

// Shrink computes y = x + bias below -lambd, x - bias above lambd, and 0 between and for NaN.
func Shrink(y, x []float32, bias, lambd float32) {
	y = y[:len(x)]
	for i := shrinkWide(y, x, bias, lambd); i < len(x); i++ {
		switch v := x[i]; {
		case v < -lambd:
			y[i] = v + bias
		case v > lambd:
			y[i] = v - bias
		default:
			y[i] = 0
		}
	}
}

// Floor computes the greatest integer not above x.
func Floor(y, x []float32) {
	y = y[:len(x)]
	for i := floorWide(y, x); i < len(x); i++ {
		y[i] = float32(math.Floor(float64(x[i])))
	}
}

// Ceil computes the smallest integer ≥ x.
func Ceil(y, x []float32) {
	y = y[:len(x)]
	for i := ceilWide(y, x); i < len(x); i++ {
		y[i] = float32(math.Ceil(float64(x[i])))
	}
}

// Round computes the integer nearest to x, halves to even.
func Round(y, x []float32) {
	y = y[:len(x)]
	for i := roundWide(y, x); i < len(x); i++ {
		y[i] = float32(math.RoundToEven(float64(x[i])))
	}
}
