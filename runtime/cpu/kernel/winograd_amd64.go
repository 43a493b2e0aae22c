//go:build amd64 && !purego

package kernel

// The functions below run a transform by vectors, for n a positive multiple of winogradVector. They report whether they
// have.

func winogradColumnsWide(dst []float32, ldd int, src []float32, lds, n int) bool {
	if !wide() {
		return false
	}
	_, _ = dst[(WinogradIn-1)*ldd+n-1], src[(WinogradIn-1)*lds+n-1]
	winogradInAVX2(n, &dst[0], ldd, &src[0], lds)
	return true
}

func winogradTilesWide(dst []float32, ldd int, src []float32, lds, n, rows int) bool {
	if !wide() {
		return false
	}
	_, _ = dst[(WinogradIn*rows-1)*ldd+n-1], src[(rows-1)*lds+WinogradOut*n+1]
	winogradInTilesAVX2(n, rows, &dst[0], ldd, &src[0], lds)
	return true
}

func winogradColumnSumsWide(dst []float32, ldd int, src []float32, lds, n int) bool {
	if !wide() {
		return false
	}
	_, _ = dst[(WinogradOut-1)*ldd+n-1], src[(WinogradIn-1)*lds+n-1]
	winogradOutAVX2(n, &dst[0], ldd, &src[0], lds)
	return true
}

func winogradTileSumsWide(dst []float32, ldd int, src []float32, lds, n, rows int, bias float32) bool {
	if !wide() {
		return false
	}
	_, _ = dst[(rows-1)*ldd+WinogradOut*n-1], src[(WinogradIn*rows-1)*lds+n-1]
	winogradOutTilesAVX2(n, rows, &dst[0], ldd, &src[0], lds, bias)
	return true
}

// infiniteWide reports whether one of the first numbers is infinite or NaN, and returns how many it has looked at.
func infiniteWide(x []float32) (n int, found bool) {
	n = len(x) &^ 7
	if n == 0 || !wide() {
		return 0, false
	}
	return n, !finiteAVX2(n, &x[0])
}
