//go:build amd64 && !purego

package kernel

import "math"

// pairRows is the largest number of rows in one call of the kernels below.
const pairRows = 6

func widenBytesWide(y []int16, x []byte, flip byte, zero int) int {
	n := len(y) &^ 15
	if n == 0 || !wide() {
		return 0
	}
	widenBytesAVX2(n, &y[0], &x[:n][0], int32(flip), int32(zero))
	return n
}

func panelInt16Wide(panel []int16, x []byte, flip byte, zero int, o Offsets, at int) bool {
	if !wide() {
		return false
	}
	_, _, _ = x[at+o.lo], x[at+o.hi+PanelWidth-1], panel[len(o.off)*PanelWidth-1] // checks bounds
	pairPanelAVX2(len(o.off)/2, &panel[0], &x[at], &o.off[0], int32(flip), int32(zero))
	return true
}

func panelProductInt16Wide(y []int32, ldy int, x []int16, ldx, rows, pairs int, panel []int16, n int) bool {
	if !wide() || pairs == 0 {
		return false
	}
	_, _ = x[(rows-1)*ldx+2*pairs-1], panel[2*pairs*PanelWidth-1]
	_ = y[(rows-1)*ldy+n-1]
	if n == PanelWidth {
		pairsWide(rows, pairs, &x[0], ldx, &panel[0], &y[0], ldy)
		return true
	}
	for r := 0; r < rows; r += pairRows {
		var t [pairRows * PanelWidth]int32
		h := min(pairRows, rows-r)
		pairsWide(h, pairs, &x[r*ldx], ldx, &panel[0], &t[0], PanelWidth)
		for q := range h {
			copy(y[(r+q)*ldy:(r+q)*ldy+n], t[q*PanelWidth:])
		}
	}
	return true
}

func quantizeBytesWide(y []byte, x []float32, scale, least, most float32, zero int, flip byte) int {
	if n := len(x) &^ 15; n > 0 && avx512() && usual(scale) {
		quantizeBytesAVX512(n, &y[:n][0], &x[0], scale, least, most, int32(zero), int32(flip))
		return n
	}
	n := len(x) &^ 31
	if n == 0 || !wide() {
		return 0
	}
	quantizeBytesAVX2(n, &y[:n][0], &x[0], scale, least, most, int32(zero), int32(flip))
	return n
}

func dequantizeBytesWide(y []float32, x []byte, flip byte, zero int, scale float32) int {
	n := len(x) &^ 15
	if n == 0 || !wide() {
		return 0
	}
	if avx512() {
		dequantizeBytesAVX512(n, &y[:n][0], &x[0], int32(flip), int32(zero), scale)
		return n
	}
	dequantizeBytesAVX2(n, &y[:n][0], &x[0], int32(flip), int32(zero), scale)
	return n
}

func addIntsWide(y, x []int32, more int32) int {
	n := len(x) / 8 * 8
	if !wide() || n == 0 {
		return 0
	}
	addIntsAVX2(n, &y[:n][0], &x[0], more)
	return n
}

func intsOfFloatsWide(y []int32, x []float32) int {
	n := len(x) / 8 * 8
	if !wide() || n == 0 {
		return 0
	}
	intsOfFloatsAVX2(n, &y[:n][0], &x[0])
	return n
}

func floatsOfIntsWide(y []float32, x []int32) int {
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	floatsOfIntsAVX2(n, &y[:n][0], &x[0])
	return n
}

func scaleIntsWide(y []float32, x []int32, bias, scale float64) int {
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	scaleIntsAVX2(n, &y[:n][0], &x[0], bias, scale)
	return n
}

func extremesWide(x []float32) (lo, hi float32, n int) {
	n = len(x) &^ 15
	if n == 0 || !wide() {
		return 0, 0, 0
	}
	lo, hi, nan := extremesAVX2(n, &x[0])
	if nan != 0 {
		lo, hi = float32(math.NaN()), float32(math.NaN())
	}
	return lo, hi, n
}
