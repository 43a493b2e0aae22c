//go:build amd64 && !purego

package kernel

// smallHeads computes a block-diagonal product with the blocks of packSmall. It returns false if it has no kernel.
func smallHeads(y []float32, ldy int, x []float32, ldx int, rows int, w *Blocks, add bool) bool {
	if w.lanes == nil || add && w.per == 8 {
		return false
	}
	all := w.N * w.M
	_, _ = x[(rows-1)*ldx+w.N*w.K-1], y[(rows-1)*ldy+all-1]
	if w.per == 8 {
		f := heads8x4AVX2
		switch w.K {
		case 6:
			f = heads8x6AVX2
		case 8:
			f = heads8x8AVX2
		}
		f(rows, &y[0], ldy, &x[0], ldx, &w.lanes[0], w.N, w.M, &firstToEnd[w.M][0], &tailMask[w.M])
		return true
	}
	f := heads2x2AVX2
	switch {
	case w.K == 8 && add:
		f = heads4x8AddAVX2
	case w.K == 8:
		f = heads4x8AVX2
	case w.K == 4 && add:
		f = heads4x4AddAVX2
	case w.K == 4:
		f = heads4x4AVX2
	case add:
		f = heads2x2AddAVX2
	}
	f(rows, &y[0], ldy, &x[0], ldx, &w.lanes[0], all/8)
	return true
}

// firstToEnd holds, for each m, the permutation of eight numbers that moves the first m to the end.
var firstToEnd = func() (t [9][8]int32) {
	for m := range t {
		for i := range t[m] {
			t[m][i] = int32((i + m) % 8)
		}
	}
	return t
}()

// tailMask[8-r:] is a mask of the first r of eight numbers.
var tailMask = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

// headsDotWide is headsDot without add, for n ≥ 1 blocks and rows ≥ 1 rows. It returns false on the portable variant.
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

// headsSpreadWide is headsSpread without add, for n ≥ 1 blocks and rows ≥ 1 rows. It returns false for blocks smaller
// than a vector, and on the portable variant.
func headsSpreadWide(y []float32, ldy int, x []float32, ldx int, rows int, w []float32, m, n int) bool {
	if !wide() || m < 8 {
		return false
	}
	_, _, _ = x[(rows-1)*ldx+n-1], y[(rows-1)*ldy+n*m-1], w[n*m-1]
	headsSpreadAVX2(rows, &y[0], ldy, &x[0], ldx, &w[0], m, n)
	return true
}

// The largest sizes of a block and of a block-diagonal matrix for which headsAcross is faster. Calls for such a block
// take longer than its products, and such a matrix stays in the first-level cache beside a few rows.
const acrossBlock, acrossMost = 128, 6 << 10

// headsAcross computes all blocks of a few rows before the next rows. Since rows are far apart, a cache line that
// several blocks share would be evicted during a pass over all rows. It returns false for large blocks, and on the
// portable variant.
func headsAcross(y []float32, ldy int, x []float32, ldx int, rows int, w *Blocks, shared int) bool {
	p, size := w.packed[0], len(w.data)/w.N
	if p.panel == panel || p.K == 0 || p.M == 0 ||
		(size > acrossBlock || len(w.data) > acrossMost) && rows > widestRows {
		return false
	}
	m, k, all := w.M, w.K, w.N*w.M
	_, _ = x[(rows-1)*ldx+shared*k-1], y[(rows-1)*ldy+all-1]
	if p.panel == widePanel512 {
		headsAcross512(y, ldy, x, ldx, rows, w, shared)
		return true
	}
	for lo := 0; lo < w.N; lo += shared {
		for r := 0; r < rows; r += widestRows {
			h := min(widestRows, rows-r)
			// The last panel comes first: the numbers that it writes beyond its block are overwritten by the first
			// panel of the next block.
			for i := p.tail(); i >= 0; i -= widePanel {
				width := widePanel
				if i == p.tail() {
					width = p.last
				}
				n := min(shared, (all-i-width+m)/m-lo) // blocks that do not write beyond the row
				if n > 0 {
					gemmBlocks(blocks{n, k, size, m}, width, h, k, &x[r*ldx], ldx, &w.data[lo*size+i*k], &zeros[0],
						&y[r*ldy+lo*m+i], ldy)
				}
				for j := max(n, 0); j < shared; j++ {
					var t [widestRows * widePanel]float32
					gemmPanel(width, h, k, x[r*ldx+j*k:], ldx, &w.data[(lo+j)*size+i*k], &zeros[0], t[:], width)
					for q := range h {
						copy(y[(r+q)*ldy+(lo+j)*m+i:(r+q)*ldy+(lo+j+1)*m], t[q*width:])
					}
				}
			}
		}
	}
	return true
}
