//go:build amd64 && !purego

package kernel

// fftPassWide runs a pass if s, or the layout of the first pass, allows whole vectors. It reports whether it has run
// it.
func fftPassWide(p *fftPass, dst, src parts, s int) bool {
	if !wide() {
		return false
	}
	if s == 1 && p.eight != nil {
		fftFirst8AVX2(&dst.re[0], &dst.im[0], &src.re[0], &src.im[0], p.m, &p.eight[0])
		return true
	}
	if s < 8 {
		return false
	}
	if avx512() && s >= 16 {
		fftPass512(p, dst, src, s)
		return true
	}
	var f func(dre, dim, sre, sim *float32, m, s int, w *float32)
	switch p.radix {
	case 2:
		f = fftPass2AVX2
	case 3:
		f = fftPass3AVX2
	case 4:
		f = fftPass4AVX2
	case 5:
		f = fftPass5AVX2
	case 7:
		f = fftPass7AVX2
	case 8:
		f = fftPass8AVX2
	case 11:
		f = fftPass11AVX2
	default:
		f = fftPass13AVX2
	}
	f(&dst.re[0], &dst.im[0], &src.re[0], &src.im[0], p.m, s, &p.w[0])
	return true
}

// The functions below compute whole vectors, and return the number of elements that they have computed.

// splitWide combines the numbers from 1 on with the same count at the end.
func splitWide(z, u parts, n int) int {
	blocks := (n - 1) / 16
	if n <= 16 || !wide() {
		return 0
	}
	fftSplitAVX2(&z.re[1], &z.im[1], &z.re[n-8], &z.im[n-8], blocks, &u.re[1], &u.im[1])
	return 8 * blocks
}

func splitLanesWide(z, u parts, n int) int {
	count := (n - 1) / 2
	if count < 1 || !wide() {
		return 0
	}
	fftSplitLanesAVX2(&z.re[lanes], &z.im[lanes], &z.re[lanes*(n-1)], &z.im[lanes*(n-1)], count, &u.re[1], &u.im[1])
	return count
}

func joinWide(x []float32, z parts, n int, scale float32) int {
	if n &^= 7; n == 0 || !wide() {
		return 0
	}
	_, _, _ = x[2*n-1], z.re[n-1], z.im[n-1]
	fftJoinAVX2(&x[0], &z.re[0], &z.im[0], n, scale)
	return n
}

// mirrorWide copies the last numbers of z.
func mirrorWide(x []float32, z parts) int {
	n := len(z.re) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_, at := x[2*n-1], len(z.re)-n
	_ = z.im[at+n-1]
	fftMirrorAVX2(&x[0], &z.re[at], &z.im[at], n)
	return n
}

func partWide(z parts, x []float32, n int) int {
	if n &^= 7; n == 0 || !wide() {
		return 0
	}
	_, _, _ = x[2*n-1], z.re[n-1], z.im[n-1]
	fftPartAVX2(&z.re[0], &z.im[0], &x[0], n)
	return n
}

// lanesInWide and lanesOutWide copy whole blocks of four numbers.
func lanesInWide(z parts, x []float32, stride, n int) int {
	if n &^= 3; n == 0 || !wide() {
		return 0
	}
	_, _, _ = x[7*stride+2*n-1], z.re[n*lanes-1], z.im[n*lanes-1]
	fftLanesInAVX2(&z.re[0], &z.im[0], &x[0], stride, n/4)
	return n
}

func lanesOutWide(z parts, x []float32, stride, n int) int {
	if n &^= 3; n == 0 || !wide() {
		return 0
	}
	_, _, _ = x[7*stride+2*n-1], z.re[n*lanes-1], z.im[n*lanes-1]
	fftLanesOutAVX2(&z.re[0], &z.im[0], &x[0], stride, n/4)
	return n
}

func mulWideParts(y, a, b parts, n int) int {
	if n &^= 7; n == 0 || !wide() {
		return 0
	}
	_, _, _, _, _, _ = y.re[n-1], y.im[n-1], a.re[n-1], a.im[n-1], b.re[n-1], b.im[n-1]
	fftMulAVX2(&y.re[0], &y.im[0], &a.re[0], &a.im[0], &b.re[0], &b.im[0], n)
	return n
}

func mulAddWideParts(y, a, b parts, n int, sign float32) int {
	if n &^= 7; n == 0 || !wide() {
		return 0
	}
	_, _, _, _, _, _ = y.re[n-1], y.im[n-1], a.re[n-1], a.im[n-1], b.re[n-1], b.im[n-1]
	fftMulAddAVX2(&y.re[0], &y.im[0], &a.re[0], &a.im[0], &b.re[0], &b.im[0], n, sign)
	return n
}
