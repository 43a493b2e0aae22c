//go:build amd64 && !purego

package kernel

// widePanel512 is widePanel of AVX-512, and widestRows512 the number of rows that one kernel takes at most.
const (
	widePanel512  = 32
	widestRows512 = 12
)

// gemmRows512 multiplies blocks of h rows of x with panels of 32 (h up to widestRows512), 16, 8 or 4 rows of W (h as
// fewRows512 has it), of which the first m count, at least one.
func gemmRows512(b blocks, width, h, k int, x *float32, ldx int, w, init *float32, y *float32, ldy, m int, add bool) {
	switch {
	case width == 32 && h == 12:
		gemm12x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 11:
		gemm11x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 10:
		gemm10x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 9:
		gemm9x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 8:
		gemm8x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 7:
		gemm7x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 6:
		gemm6x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 5:
		gemm5x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 4:
		gemm4x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 3:
		gemm3x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32 && h == 2:
		gemm2x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 32:
		gemm1x32AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 16 && h == 12:
		gemm12x16AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 16 && h == 4:
		gemm4x16AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 16:
		gemm1x16AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 8 && h == 12:
		gemm12x8AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 8 && h == 4:
		gemm4x8AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case width == 8:
		gemm1x8AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case h == 12:
		gemm12x4AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	case h == 4:
		gemm4x4AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	default:
		gemm1x4AVX512(b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy, m, add)
	}
}

// fewRows512 is how many of the next rows, at least one, a kernel takes at once.
func fewRows512(width, rows int) int {
	switch {
	case width == widePanel512:
		return min(rows, widestRows512)
	case rows >= widestRows512:
		return widestRows512
	case rows >= 4:
		return 4
	}
	return 1
}

// gemmPanel512 multiplies rows rows of x, at least one, with one panel of 4, 8, 16 or 32 rows of W, of which the first m
// count, as for gemmRows512.
func gemmPanel512(width, rows, k int, x []float32, ldx int, w, init *float32, y []float32, ldy, m int, add bool) {
	_ = x[(rows-1)*ldx+k-1] // what the kernels read and write, checked here
	_ = y[(rows-1)*ldy+m-1]
	for r := 0; r < rows; {
		h := fewRows512(width, rows-r)
		n := (rows - r) / h
		gemmRows512(blocks{n, h * ldx, 0, h * ldy}, width, h, k, &x[r*ldx], ldx, w, init, &y[r*ldy], ldy, m, add)
		r += n * h
	}
}

// gemm512 is gemmWide for panels of widePanel512. It writes nothing beside y.
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

// gemv512 is gemvWide for panels of widePanel512.
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

// vectorPanels512 is how many of the next m outputs are computed at once for one row of x: those of fours of panels, of two, or
// of one that need not be whole.
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

// headsAcross512 is headsAcross for panels of widePanel512, which write nothing beside their block.
func headsAcross512(y []float32, ldy int, x []float32, ldx int, rows int, w *Blocks, shared int) {
	p, size, m, k := w.packed[0], len(w.data)/w.N, w.M, w.K
	for lo := 0; lo < w.N; lo += shared {
		for i := 0; i < m; i += widePanel512 {
			n, width := min(widePanel512, m-i), widePanel512
			if n < widePanel512 {
				width = p.last
			}
			for r := 0; r < rows; {
				h := fewRows512(width, rows-r)
				gemmRows512(blocks{shared, k, size, m}, width, h, k, &x[r*ldx], ldx, &w.data[lo*size+i*k], &zeros[0], &y[r*ldy+lo*m+i], ldy, n, false)
				r += h
			}
		}
	}
}
