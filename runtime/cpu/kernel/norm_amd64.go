//go:build amd64 && !purego

package kernel

// sum64Wide returns the sum of the whole vectors at the beginning of x, and the number of their elements.
func sum64Wide(x []float32) (sum float64, n int) {
	n = len(x) &^ 7
	if n == 0 || !wide() {
		return 0, 0
	}
	return sum64AVX2(n, &x[0]), n
}

// squares64Wide is like sum64Wide for the squares of x - mean.
func squares64Wide(x []float32, mean float64) (sum float64, n int) {
	n = len(x) &^ 7
	if n == 0 || !wide() {
		return 0, 0
	}
	return squares64AVX2(n, &x[0], mean), n
}

// normWide computes y = (x - mean)·inv·scale + shift for the whole vectors at the beginning of a row. It returns the
// number of their elements. shift, or both scale and shift, may be nil.
func normWide(y, x, scale, shift []float32, mean, inv float64) int {
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_ = y[n-1]
	switch {
	case scale == nil:
		normAVX2(n, &y[0], &x[0], mean, inv)
	case shift == nil:
		_ = scale[n-1]
		normScaleAVX2(n, &y[0], &x[0], &scale[0], mean, inv)
	default:
		_, _ = scale[n-1], shift[n-1]
		normAffineAVX2(n, &y[0], &x[0], &scale[0], &shift[0], mean, inv)
	}
	return n
}

// fourSums64Wide is sum64Wide for four rows, ld numbers apart.
func fourSums64Wide(x []float32, f, ld int) (sums [4]float64, n int) {
	n = f &^ 7
	if n == 0 || !wide() {
		return sums, 0
	}
	_ = x[3*ld+n-1]
	fourSums64AVX2(n, &x[0], ld, &sums[0])
	return sums, n
}

// fourSquares64Wide is squares64Wide for four rows.
func fourSquares64Wide(x []float32, f, ld int, means *[4]float64) (sums [4]float64, n int) {
	n = f &^ 7
	if n == 0 || !wide() {
		return sums, 0
	}
	_ = x[3*ld+n-1]
	fourSquares64AVX2(n, &x[0], ld, &sums[0], &means[0])
	return sums, n
}

// fourNormWide is normWide for four rows. shift may be nil.
func fourNormWide(y, x []float32, f, ld int, scale, shift []float32, means, invs *[4]float64) int {
	n := f &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_, _, _ = y[3*ld+n-1], x[3*ld+n-1], scale[n-1]
	if shift == nil {
		fourNormScaleAVX2(n, &y[0], &x[0], ld, &scale[0], &means[0], &invs[0])
	} else {
		_ = shift[n-1]
		fourNormAffineAVX2(n, &y[0], &x[0], ld, &scale[0], &shift[0], &means[0], &invs[0])
	}
	return n
}
