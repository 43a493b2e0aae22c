package kernel

import "math"

// moments returns the mean and the biased variance of a row, computed in float64.
func moments(x []float32) (mean, variance float64) {
	mean, done := sum64Wide(x)
	for _, v := range x[done:] {
		mean += float64(v)
	}
	mean /= float64(len(x))
	return mean, squares(x, mean) / float64(len(x))
}

// squares returns the sum of the squares of x - mean, computed in float64.
func squares(x []float32, mean float64) float64 {
	sum, done := squares64Wide(x, mean)
	for _, v := range x[done:] {
		d := float64(v) - mean
		sum += d * d
	}
	return sum
}

// LayerNorm computes y = (x - mean)/√(variance + eps)·scale + shift for each row of f features. shift may be nil. y may
// be x.
func LayerNorm(y, x []float32, rows, f int, eps float64, scale, shift []float32) {
	for r := range rows {
		src, dst := x[r*f:(r+1)*f], y[r*f:(r+1)*f]
		mean, variance := moments(src)
		inv := 1 / math.Sqrt(variance+eps)
		for i := normWide(dst, src, scale, shift, mean, inv); i < f; i++ {
			a := (float64(src[i]) - mean) * inv * float64(scale[i])
			if shift != nil {
				a += float64(shift[i])
			}
			dst[i] = float32(a)
		}
	}
}

// ScalarNorm computes y = s/√variance·(x - mean + m) for each row of f features. y may be x.
func ScalarNorm(y, x []float32, rows, f int, m, s float64) {
	for r := range rows {
		src, dst := x[r*f:(r+1)*f], y[r*f:(r+1)*f]
		mean, variance := moments(src)
		inv := s / math.Sqrt(variance)
		for i := normWide(dst, src, nil, nil, mean-m, inv); i < f; i++ {
			dst[i] = float32(inv * (float64(src[i]) - (mean - m)))
		}
	}
}

// RMSNorm computes y = x/√(mean of x² + eps)·scale for each row of f features. y may be x.
func RMSNorm(y, x []float32, rows, f int, eps float64, scale []float32) {
	for r := range rows {
		src, dst := x[r*f:(r+1)*f], y[r*f:(r+1)*f]
		inv := 1 / math.Sqrt(squares(src, 0)/float64(f)+eps)
		for i := normWide(dst, src, scale, nil, 0, inv); i < f; i++ {
			dst[i] = float32(float64(src[i]) * inv * float64(scale[i]))
		}
	}
}

// Normal returns the mean of x and 1/√(variance + eps).
func Normal(x []float32, eps float64) (mean, inv float64) {
	mean, variance := moments(x)
	return mean, 1 / math.Sqrt(variance+eps)
}

// Standardize computes y = (x - mean)·inv·scale + shift, rounded once. y may be x.
func Standardize(y, x []float32, mean, inv float64, scale, shift float32) {
	a := inv * float64(scale)
	b := float64(shift)
	y = y[:len(x)]
	for i, v := range x {
		y[i] = float32((float64(v)-mean)*a + b)
	}
}
