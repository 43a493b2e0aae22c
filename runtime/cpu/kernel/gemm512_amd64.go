//go:build amd64 && !purego

package kernel

// widePanel512 is widePanel for AVX-512.
const widePanel512 = 32

// gemmBlocks512 is gemmBlocks for panels of 4, 8, 16 or 32 rows of W, of which it writes the first m ≥ 1.
func gemmBlocks512(b blocks, width, rows, k int, x *float32, ldx int, w, init *float32, y *float32, ldy, m int,
	add bool) {
	switch width {
	case 32:
		gemm32AVX512(rows, b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case 16:
		gemm16AVX512(rows, b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case 8:
		gemm8AVX512(rows, b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	default:
		gemm4AVX512(rows, b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	}
}

// gemmPanel512 multiplies rows ≥ 1 rows of x with one panel of 4, 8, 16 or 32 rows of W, of which it writes the first m
// ≥ 1.
func gemmPanel512(width, rows, k int, x []float32, ldx int, w, init *float32, y []float32, ldy, m int, add bool) {
	_ = x[(rows-1)*ldx+k-1] // checks the bounds of all that the kernels read and write
	_ = y[(rows-1)*ldy+m-1]
	gemmBlocks512(blocks{n: 1}, width, rows, k, &x[0], ldx, w, init, &y[0], ldy, m, add)
}

// gemm512 is gemmWide for panels of widePanel512 rows. It writes nothing beyond the rows of y.
func gemm512(y []float32, ldy int, x []float32, ldx int, rows int, w *Packed, bias []float32, add bool) {
	i := 0
	if rows == 1 && !add {
		i = gemv512(y, x, w, bias)
	}
	for ; i < w.M; i += widePanel512 {
		n, width := min(widePanel512, w.M-i), widePanel512
		if n < widePanel512 {
			width = w.last
		}
		init := zeros[:n]
		if bias != nil {
			init = bias[i : i+n]
		}
		gemmPanel512(width, rows, w.K, x, ldx, &w.data[i*w.K], &init[0], y[i:], ldy, n, add)
	}
}

// gemv512 is gemvWide for panels of widePanel512 rows.
func gemv512(y, x []float32, w *Packed, bias []float32) int {
	_ = x[w.K-1]
	i := 0
	for {
		n := vectorPanels512(w.M - i)
		if n <= widePanel512 {
			return i
		}
		init := zeros[:n]
		if bias != nil {
			init = bias[i : i+n]
		}
		_ = y[i+n-1]
		if n == 2*widePanel512 {
			gemv64AVX512(1, w.K, &x[0], &w.data[i*w.K], &init[0], &y[i])
		} else {
			gemv128AVX512(n/(4*widePanel512), w.K, &x[0], &w.data[i*w.K], &init[0], &y[i])
		}
		i += n
	}
}

// vectorPanels512 returns how many of the next m outputs are computed at once for one row of x: those of a multiple of
// four panels, of two panels, or of one, which need not be whole.
func vectorPanels512(m int) int {
	const four, two = 4 * widePanel512, 2 * widePanel512
	switch {
	case m >= four:
		return min(gemvMost, m&^(four-1))
	case m >= two:
		return two
	}
	return min(m, widePanel512)
}

// headsAcross512 is headsAcross for panels of widePanel512 rows, which write nothing beyond their block.
func headsAcross512(y []float32, ldy int, x []float32, ldx int, rows int, w *Blocks, shared int) {
	p, size, m, k := w.packed[0], len(w.data)/w.N, w.M, w.K
	for lo := 0; lo < w.N; lo += shared {
		for i := 0; i < m; i += widePanel512 {
			n, width := min(widePanel512, m-i), widePanel512
			if n < widePanel512 {
				width = p.last
			}
			gemmBlocks512(blocks{shared, k, size, m}, width, rows, k, &x[0], ldx, &w.data[lo*size+i*k], &zeros[0],
				&y[lo*m+i], ldy, n, false)
		}
	}
}
