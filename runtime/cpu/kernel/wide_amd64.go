//go:build amd64 && !purego

package kernel

// The functions below compute whole vectors, and return the number of elements that they have computed. The portable
// code computes the rest, and everything on the portable variant.

// scanWide advances whole vectors of the states lo…hi-1 of a scan over real inputs, and writes their real parts to x.
// It returns their number. Backward scans start at the last row. Forward scans have outputs.
func scanWide(d *Diagonal, x, v []float32, rows, lo, hi int, zr, zi []float64, backward bool, mode int) int {
	if !wide() || rows == 0 {
		return 0
	}
	if avx512() {
		scan512(d, x, v, rows, lo, hi, zr, zi, backward, mode)
		return hi - lo
	}
	n := d.N()
	stride, first := n, 0
	four, one := scanForward16AVX2, scanForward4AVX2
	if backward {
		stride, first = -n, (rows-1)*n
		switch mode {
		case scanDrop:
			four, one = scanBackwardDrop16AVX2, scanBackwardDrop4AVX2
		case scanSet:
			four, one = scanBackwardSet16AVX2, scanBackwardSet4AVX2
		default:
			four, one = scanBackwardAdd16AVX2, scanBackwardAdd4AVX2
		}
	}
	j := lo
	for j+4 <= hi {
		f, step := one, 4
		if j+16 <= hi {
			f, step = four, 16
		}
		_ = v[(rows-1)*n+j+step-1]
		var out *float32
		if mode != scanDrop {
			_ = x[(rows-1)*n+j+step-1]
			out = &x[first+j]
		}
		_, _ = zr[j+step-1], zi[j+step-1]
		f(rows, out, &v[first+j], stride, &d.ARe[j], &d.AIm[j], &d.BRe[j], &d.BIm[j], &zr[j], &zi[j])
		j += step
	}
	return j - lo
}

func unaryWide(y, x []float32, f func(n int, y, x *float32)) int {
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_ = y[n-1]
	f(n, &y[0], &x[0])
	return n
}

func sigmoidWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, sigmoidAVX512)
	}
	return unaryWide(y, x, sigmoidAVX2)
}

func geluWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, geluAVX512)
	}
	return unaryWide(y, x, geluAVX2)
}

func geluTanhWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, geluTanhAVX512)
	}
	return unaryWide(y, x, geluTanhAVX2)
}

func erfWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, erfAVX512)
	}
	return unaryWide(y, x, erfAVX2)
}

func expWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, expAVX512)
	}
	return unaryWide(y, x, expAVX2)
}

func reluWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, reluAVX512)
	}
	return unaryWide(y, x, reluAVX2)
}

func alphaWide(y, x []float32, alpha float32, f func(n int, y, x *float32, alpha float32)) int {
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_ = y[n-1]
	f(n, &y[0], &x[0], alpha)
	return n
}

func leakyReluWide(y, x []float32, alpha float32) int {
	if avx512() {
		return alpha512(y, x, alpha, leakyReluAVX512)
	}
	return alphaWide(y, x, alpha, leakyReluAVX2)
}

func swishWide(y, x []float32, alpha float32) int {
	if avx512() {
		return alpha512(y, x, alpha, swishAVX512)
	}
	return alphaWide(y, x, alpha, swishAVX2)
}

func tanhWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, tanhAVX512)
	}
	return unaryWide(y, x, tanhAVX2)
}

func binaryWide(y, a, b []float32, f func(n int, y, a, b *float32)) int {
	n := len(a) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_, _ = y[n-1], b[n-1]
	f(n, &y[0], &a[0], &b[0])
	return n
}

func addWide(y, a, b []float32) int {
	if avx512() {
		return binary512(y, a, b, addAVX512)
	}
	return binaryWide(y, a, b, addAVX2)
}

func subWide(y, a, b []float32) int {
	if avx512() {
		return binary512(y, a, b, subAVX512)
	}
	return binaryWide(y, a, b, subAVX2)
}

func mulWide(y, a, b []float32) int {
	if avx512() {
		return binary512(y, a, b, mulAVX512)
	}
	return binaryWide(y, a, b, mulAVX2)
}

// affineWide is Affine for one row.
func affineWide(y, x, scale, shift []float32) int {
	if avx512() {
		return affine512(y, x, scale, shift)
	}
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_, _, _ = y[n-1], scale[n-1], shift[n-1]
	affineAVX2(n, &y[0], &x[0], &scale[0], &shift[0])
	return n
}
