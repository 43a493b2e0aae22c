//go:build amd64 && !purego

package kernel

import "math"

// fillPairs packs W, rounded, as pairs of columns in panels of widePanel512 rows. The last panel and the last pair are
// padded with zeros.
func fillPairs(p []uint32, w []float32, m, k, rs, cs int) {
	words := BF16Words(k)
	clear(p)
	for i := range m {
		panel := p[i/widePanel512*widePanel512*words:]
		for j := range k {
			panel[j/2*widePanel512+i%widePanel512] |= math.Float32bits(roundBF16(w[i*rs+j*cs])) >> 16 << (j % 2 * 16)
		}
	}
}

// newPairs returns memory for the pairs of a matrix.
func newPairs(m, k int) []uint32 {
	return make([]uint32, (m+widePanel512-1)/widePanel512*widePanel512*BF16Words(k))
}

// roundPairs is RoundBF16 for pairs.
func roundPairs(dst, x []float32, n, k int) {
	words := BF16Words(k)
	if n == 0 || k == 0 {
		return
	}
	for i := range n {
		to, from := uint16s(dst[i*words:(i+1)*words]), x[i*k:(i+1)*k]
		roundBF16AVX512(k, &to[0], &from[0])
		clear(to[k:])
	}
}

// roundBF16Wide rounds the whole vectors at the beginning of x. It returns the number of elements that it has rounded.
func roundBF16Wide(y, x []float32) int {
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_ = y[n-1]
	roundBF16AVX2(n, &y[0], &x[0])
	return n
}

// gemmPairs is GemmBF16 for pairs.
func gemmPairs(y []float32, ldy int, x []float32, ldx int, rows int, w *BF16, bias []float32) {
	if rows == 0 || w.M == 0 {
		return
	}
	words := BF16Words(w.K)
	_ = x[(rows-1)*ldx+words-1] // checks the bounds of all that the kernels read and write
	_ = y[(rows-1)*ldy+w.M-1]
	for i := 0; i < w.M; {
		n := min(widePanel512, w.M-i)
		if rows == 1 {
			n = vectorPanels512(w.M - i)
		}
		init, panels, to := zeros[:n], &w.pairs[i*words], &y[i]
		if bias != nil {
			init = bias[i : i+n]
		}
		switch {
		case n <= widePanel512:
			bf16AVX512(rows, words, &x[0], ldx, panels, &init[0], to, ldy, n)
		case n == 2*widePanel512:
			bf16Vector64AVX512(1, words, &x[0], panels, &init[0], to)
		default:
			bf16Vector128AVX512(n/(4*widePanel512), words, &x[0], panels, &init[0], to)
		}
		i += n
	}
}
