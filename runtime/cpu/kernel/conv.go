package kernel

// Correlate adds Σ over j of k[j]·v[t+j+lag] to y[t] for each t; v is zero outside of its bounds. A convolution is a
// correlation with the reversed kernel.
func Correlate(y, v, k []float32, lag int) {
	for t := range y {
		from := t + lag // of v, for k[0]
		lo, hi := max(0, -from), min(len(k), len(v)-from)
		if lo < hi {
			y[t] += dot(k[lo:hi], v[from+lo:from+hi])
		}
	}
}

// dot returns the scalar product of a and b. It sums blocks in float32, and the sums of blocks in float64.
func dot(a, b []float32) float32 {
	sum := 0.0
	for len(a) > 0 {
		n := min(len(a), 256)
		x, y := a[:n], b[:n]
		a, b = a[n:], b[n:]
		var s0, s1, s2, s3 float32
		for len(x) >= 4 && len(y) >= 4 {
			s0 += x[0] * y[0]
			s1 += x[1] * y[1]
			s2 += x[2] * y[2]
			s3 += x[3] * y[3]
			x, y = x[4:], y[4:]
		}
		for i, v := range x {
			s0 += v * y[i]
		}
		sum += float64(s0+s1) + float64(s2+s3)
	}
	return float32(sum)
}
