//go:build amd64 && !purego

package kernel

// wide is Scan by vectors; false if the block is not a whole vector and parts of vectors are not computed.
func (s *Selective) wide(y, x []float32, stride int, delta []float32, ldd int, rates []float32, b, c []float64, ldb int,
	direct []float32, rows, count int, z []float64) bool {
	if !wide() || !avx512() && count < s.lanes {
		return false
	}
	last := (rows-1)*stride + count - 1
	_, _, _, _ = y[last], x[last], delta[(rows-1)*ldd+count-1], z[s.N*s.lanes-1]
	_, _ = b[(rows-1)*ldb+s.N-1], c[(rows-1)*ldb+s.N-1]
	switch {
	case avx512() && s.one:
		selectiveOne16AVX512(rows, s.N, &y[0], &x[0], stride, &delta[0], ldd, &rates[0], &b[0], &c[0], ldb, &direct[0], &z[0],
			count)
	case avx512():
		selective16AVX512(rows, s.N, &y[0], &x[0], stride, &delta[0], ldd, &rates[0], &b[0], &c[0], ldb, &direct[0], &z[0],
			count)
	case s.one:
		selectiveOne8AVX2(rows, s.N, &y[0], &x[0], stride, &delta[0], ldd, &rates[0], &b[0], &c[0], ldb, &direct[0], &z[0])
	default:
		selective8AVX2(rows, s.N, &y[0], &x[0], stride, &delta[0], ldd, &rates[0], &b[0], &c[0], ldb, &direct[0], &z[0])
	}
	return true
}

// gatedWide is Gated for whole vectors of states. It returns the number of features that it has done.
func gatedWide(h, f, v []float32, stride, n, rows int, z []float64) int {
	if !wide() {
		return 0
	}
	lanes := machine.selective
	n = n / lanes * lanes
	if n == 0 {
		return 0
	}
	last := (rows-1)*stride + n - 1
	_, _, _, _ = h[last], f[last], v[last], z[n-1]
	for i := 0; i < n; i += lanes {
		if avx512() {
			gated16AVX512(rows, &h[i], &f[i], &v[i], stride, &z[i], lanes)
		} else {
			gated8AVX2(rows, &h[i], &f[i], &v[i], stride, &z[i])
		}
	}
	return n
}

// decaysWide is decays by vectors.
func decaysWide(y, x, m []float32, a []float64, at float64) bool {
	n := len(y)
	if !wide() || n == 0 {
		return false
	}
	_, _, _ = x[n-1], m[n-1], a[n-1]
	if avx512() {
		decaysAVX512(n, &y[0], &x[0], &m[0], &a[0], at)
	} else {
		decaysAVX2(n, &y[0], &x[0], &m[0], &a[0], at)
	}
	return true
}

// narrowStatesWide is narrowStates for whole rows of a vector.
func narrowStatesWide(y []float32, ldy int, z []float64, lanes, rows int) bool {
	if !wide() || rows == 0 {
		return false
	}
	_, _ = y[(rows-1)*ldy+lanes-1], z[rows*lanes-1]
	if avx512() {
		narrowStates16AVX512(rows, &y[0], ldy, &z[0])
	} else {
		narrowStates8AVX2(rows, &y[0], ldy, &z[0])
	}
	return true
}

// advanceStatesWide is advanceStates by vectors.
func advanceStatesWide(z []float64, lanes int, e float64, x []float32, ldx int) bool {
	rows := len(z) / lanes
	if !wide() || rows == 0 {
		return false
	}
	_ = x[(rows-1)*ldx+lanes-1]
	if avx512() {
		advanceStates16AVX512(rows, &z[0], e, &x[0], ldx)
	} else {
		advanceStates8AVX2(rows, &z[0], e, &x[0], ldx)
	}
	return true
}
