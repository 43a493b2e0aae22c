package kernel

import "math"

// moments returns the mean and the biased variance of a row, computed in float64.
func moments(x []float32) (mean, variance float64) {
	mean = Sum64(x) / float64(len(x))
	return mean, Squares(x, mean) / float64(len(x))
}

// Sum64 returns the sum of x, computed in float64.
func Sum64(x []float32) float64 {
	sum, done := sum64Wide(x)
	for _, v := range x[done:] {
		sum += float64(v)
	}
	return sum
}

// Squares returns the sum of the squares of x - mean, computed in float64.
func Squares(x []float32, mean float64) float64 {
	sum, done := squares64Wide(x, mean)
	for _, v := range x[done:] {
		d := float64(v) - mean
		sum += d * d
	}
	return sum
}

// Normalize computes y = (x - mean)·inv·scale + shift in float64. shift, or both scale and shift, may be nil. y may be x.
func Normalize(y, x []float32, mean, inv float64, scale, shift []float32) {
	normalizeFrom(normWide(y, x, scale, shift, mean, inv), y, x, mean, inv, scale, shift)
}

// normalizeFrom is Normalize from number i on.
func normalizeFrom(i int, y, x []float32, mean, inv float64, scale, shift []float32) {
	switch {
	case scale == nil:
		for ; i < len(x); i++ {
			y[i] = float32((float64(x[i]) - mean) * inv)
		}
	case shift == nil:
		for ; i < len(x); i++ {
			y[i] = float32((float64(x[i]) - mean) * inv * float64(scale[i]))
		}
	default:
		for ; i < len(x); i++ {
			a := (float64(x[i]) - mean) * inv * float64(scale[i])
			a += float64(shift[i])
			y[i] = float32(a)
		}
	}
}

// LayerNorm computes y = (x - mean)/√(variance + eps)·scale + shift for each row of f features. shift may be nil. y may
// be x.
func LayerNorm(y, x []float32, rows, f int, eps float64, scale, shift []float32) {
	done := fourNorms(y, x, rows, f, eps, scale, shift, true)
	for r := done; r < rows; r++ {
		src, dst := x[r*f:(r+1)*f], y[r*f:(r+1)*f]
		mean, inv := Normal(src, eps)
		Normalize(dst, src, mean, inv, scale, shift)
	}
}

// fourNorms is LayerNorm of all rows but up to three, four at a time, which hides the latency of sums; each row gets the same
// answer. Without center, the mean is 0. It returns the number of rows, 0 if the variant has no kernels.
func fourNorms(y, x []float32, rows, f int, eps float64, scale, shift []float32, center bool) (done int) {
	for ; done+4 <= rows; done += 4 {
		src, dst := x[done*f:(done+4)*f], y[done*f:(done+4)*f]
		var means, invs [4]float64
		if center {
			sums, n := fourSums64Wide(src, f, f)
			if n == 0 {
				return 0
			}
			for r := range means {
				for _, v := range src[r*f+n : (r+1)*f] {
					sums[r] += float64(v)
				}
				means[r] = sums[r] / float64(f)
			}
		}
		squares, n := fourSquares64Wide(src, f, f, &means)
		if n == 0 {
			return 0
		}
		for r := range invs {
			for _, v := range src[r*f+n : (r+1)*f] {
				d := float64(v) - means[r]
				squares[r] += d * d
			}
			invs[r] = 1 / math.Sqrt(squares[r]/float64(f)+eps)
		}
		fourNormWide(dst, src, f, f, scale, shift, &means, &invs)
		for r := range means {
			normalizeFrom(n, dst[r*f:(r+1)*f], src[r*f:(r+1)*f], means[r], invs[r], scale, shift)
		}
	}
	return done
}

// ScalarNorm computes y = s/√variance·(x - mean + m) for each row of f features. y may be x.
func ScalarNorm(y, x []float32, rows, f int, m, s float64) {
	for r := range rows {
		src, dst := x[r*f:(r+1)*f], y[r*f:(r+1)*f]
		mean, variance := moments(src)
		Normalize(dst, src, mean-m, s/math.Sqrt(variance), nil, nil)
	}
}

// RMSNorm computes y = x/√(mean of x² + eps)·scale for each row of f features. y may be x.
func RMSNorm(y, x []float32, rows, f int, eps float64, scale []float32) {
	done := fourNorms(y, x, rows, f, eps, scale, nil, false)
	for r := done; r < rows; r++ {
		src, dst := x[r*f:(r+1)*f], y[r*f:(r+1)*f]
		Normalize(dst, src, 0, 1/math.Sqrt(Squares(src, 0)/float64(f)+eps), scale, nil)
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
