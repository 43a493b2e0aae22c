package kernel

import "math"

// moments are the mean and the biased variance of a row.
func moments(x []float32) (mean, variance float64) {
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		variance += d * d
	}
	return mean, variance / float64(len(x))
}

// LayerNorm is y = (x - mean)/√(variance + eps)·scale + shift for each row of f features; shift may be nil. y may be x.
func LayerNorm(y, x []float32, rows, f int, eps float64, scale, shift []float32) {
	for r := range rows {
		src, dst := x[r*f:(r+1)*f], y[r*f:(r+1)*f]
		mean, variance := moments(src)
		inv := 1 / math.Sqrt(variance+eps)
		for i, v := range src {
			a := (float64(v) - mean) * inv * float64(scale[i])
			if shift != nil {
				a += float64(shift[i])
			}
			dst[i] = float32(a)
		}
	}
}

// ScalarNorm is y = s/√variance·(x - mean + m) for each row of f features. y may be x.
func ScalarNorm(y, x []float32, rows, f int, m, s float64) {
	for r := range rows {
		src, dst := x[r*f:(r+1)*f], y[r*f:(r+1)*f]
		mean, variance := moments(src)
		inv := s / math.Sqrt(variance)
		for i, v := range src {
			dst[i] = float32(inv * (float64(v) - mean + m))
		}
	}
}
