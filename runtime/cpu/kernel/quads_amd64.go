//go:build amd64 && !purego

package kernel

func quadsWide() bool { return int8Bytes512() }

func panelBytesWide(panel []byte, x []byte, flip byte, o Offsets, at int) bool {
	if !quadsWide() {
		return false
	}
	_, _, _ = x[at+o.lo], x[at+o.hi+PanelWidth-1], panel[len(o.off)*PanelWidth-1] // checks bounds
	quadPanelAVX512(len(o.off)/4, &panel[0], &x[at], &o.off[0], int32(flip))
	return true
}

func panelProductBytesWide(y []int32, ldy int, x []int8, ldx, rows, quads, panels int, panel []byte) bool {
	if !quadsWide() || quads == 0 {
		return false
	}
	size := 4 * quads * PanelWidth
	_, _, _ = x[(rows-1)*ldx+4*quads-1], panel[panels*size-1], y[(rows-1)*ldy+panels*PanelWidth-1]
	for ; panels > 1; panels -= 2 {
		quadsTwoAVX512(rows, quads, &x[0], ldx/4, &panel[0], &y[0], ldy)
		if panels == 2 {
			return true
		}
		y, panel = y[2*PanelWidth:], panel[2*size:]
	}
	quadsAVX512(rows, quads, &x[0], ldx/4, &panel[0], &y[0], ldy)
	return true
}

func scaleBytesWide(y []byte, x []int32, bias, scale float64, least, most float32, zero int, flip byte) int {
	n := len(x) &^ 15
	if !avx512() || n == 0 {
		return 0
	}
	scaleBytesAVX512(n, &y[:n][0], &x[0], bias, scale, least, most, int32(zero), int32(flip))
	return n
}

func requantizeWide(y []byte, x, add []int32, more int32, factor []float32, unit, least, most float32, zero int, flip byte) int {
	n := len(x) &^ 15
	if !avx512() || n == 0 {
		return 0
	}
	requantizeAVX512(n, &y[:n][0], &x[0], &add[:n][0], more, &factor[:n][0], unit, least, most, int32(zero), int32(flip))
	return n
}

func pairBytesWide(multiply bool, y, a, b []byte, p *BytePair, r byteRange, more int) int {
	n := len(a) &^ 15
	if !avx512() || n == 0 {
		return 0
	}
	zeros := [2]int32{int32(p.Zero[0] + more), int32(p.Zero[1] + more)}
	f := addBytesAVX512
	if multiply {
		f = mulBytesAVX512
	}
	f(n, &y[:n][0], &a[0], &b[:n][0], &p.Scale[0], &zeros[0], r.least, r.most, int32(r.zero), int32(r.flip))
	return n
}

// pairsWide computes sums of products of pairs, for whole panels.
func pairsWide(rows, pairs int, x *int16, ldx int, panel *int16, y *int32, ldy int) {
	if int8Bytes512() && ldx%2 == 0 {
		pairsAVX512(rows, pairs, x, ldx/2, panel, y, ldy)
		return
	}
	pairsAVX2(rows, pairs, x, ldx, panel, y, ldy)
}
