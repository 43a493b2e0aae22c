//go:build amd64 && !purego

package kernel

// smallHeads computes a block-diagonal product with blocks that share vectors; it reports false for sizes it has no kernel
// for.
func smallHeads(y []float32, ldy int, x []float32, ldx int, rows int, w *Blocks, add bool) bool {
	if w.lanes == nil {
		return false
	}
	f := heads2AVX2
	switch {
	case w.K == 4 && add:
		f = heads4AddAVX2
	case w.K == 4:
		f = heads4AVX2
	case add:
		f = heads2AddAVX2
	}
	width := w.N * w.M
	_, _ = x[(rows-1)*ldx+width-1], y[(rows-1)*ldy+width-1]
	f(rows, &y[0], ldy, &x[0], ldx, &w.lanes[0], width/8)
	return true
}

// tailMask holds, from 8-r on, ones for r of eight numbers.
var tailMask = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

// headsDotWide is headsDot without add for n ≥ 1 blocks, rows ≥ 1 rows; it reports false where the portable variant was chosen.
func headsDotWide(y []float32, ldy int, x []float32, ldx int, rows int, w []float32, k, n int) bool {
	if !wide() {
		return false
	}
	_, _, _ = x[(rows-1)*ldx+n*k-1], y[(rows-1)*ldy+n-1], w[n*k-1]
	mask := &tailMask[8-k%8]
	four := n &^ 3
	if four > 0 {
		headsDot4AVX2(rows, &y[0], ldy, &x[0], ldx, &w[0], k, four/4, mask)
	}
	if four < n {
		headsDot1AVX2(rows, &y[four], ldy, &x[four*k], ldx, &w[four*k], k, n-four, mask)
	}
	return true
}

// headsSpreadWide is headsSpread without add for n ≥ 1 blocks, rows ≥ 1 rows; it reports false for blocks smaller than a
// vector, and where the portable variant was chosen.
func headsSpreadWide(y []float32, ldy int, x []float32, ldx int, rows int, w []float32, m, n int) bool {
	if !wide() || m < 8 {
		return false
	}
	_, _, _ = x[(rows-1)*ldx+n-1], y[(rows-1)*ldy+n*m-1], w[n*m-1]
	headsSpreadAVX2(rows, &y[0], ldy, &x[0], ldx, &w[0], m, n)
	return true
}
