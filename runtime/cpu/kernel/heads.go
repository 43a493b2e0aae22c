package kernel

// Blocks is a block-diagonal matrix of N blocks (M rows, K columns each), laid out for Heads.
type Blocks struct {
	N, M, K int
	packed  []*Packed
	lanes   []float32 // small square blocks, eight rows side by side: for each, K times eight numbers; nil for other sizes
}

// PackBlocks lays out n blocks, each m rows of k numbers, that lie one after the other.
func PackBlocks(w []float32, n, m, k int) *Blocks {
	b := &Blocks{N: n, M: m, K: k}
	for i := range n {
		b.packed = append(b.packed, Pack(w[i*m*k:(i+1)*m*k], m, k, k, 1))
	}
	if wide() && m == k && (m == 2 || m == 4) && n*m%8 == 0 {
		b.lanes = make([]float32, n*m*k)
		for row := range n * m {
			for p := range k {
				b.lanes[(row/8*k+p)*8+row%8] = w[row*k+p]
			}
		}
	}
	return b
}

// Heads computes a block-diagonal product row by row: block i of y is block i of w times block i of x, or, where shared blocks
// of x repeat (channels), block i modulo their number. Blocks of y lie side by side; so do those of x.
func Heads(y []float32, ldy int, x []float32, ldx int, rows int, w *Blocks, shared int, add bool) {
	if (shared == 0 || shared == w.N) && smallHeads(y, ldy, x, ldx, rows, w, add) || rows == 0 {
		return
	}
	for i, p := range w.packed {
		src := i
		if shared > 0 {
			src = i % shared
		}
		Gemm(y[i*p.M:], ldy, x[src*p.K:], ldx, rows, p, nil, add)
	}
}
