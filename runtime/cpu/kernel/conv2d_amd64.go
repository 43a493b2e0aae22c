//go:build amd64 && !purego

package kernel

import "slices"

func panelWide(dst, src []float32, o Offsets, index *[PanelWidth]int32, contiguous bool) bool {
	if !wide() {
		return false
	}
	off := o.off
	_ = dst[len(off)*PanelWidth-1] // checks the bounds of all that is written and read
	if contiguous {
		_, _ = src[o.lo+int(index[0])], src[o.hi+int(index[0])+PanelWidth-1]
		panelAVX2(len(off), &dst[0], &src[index[0]], &off[0])
		return true
	}
	_, _ = src[o.lo+int(slices.Min(index[:]))], src[o.hi+int(slices.Max(index[:]))]
	if quarters(index) {
		quarterPanelAVX2(len(off), &dst[0], &src[0], &off[0], &index[0])
		return true
	}
	gatherPanelAVX2(len(off), &dst[0], &src[0], &off[0], &index[0])
	return true
}

// runPanelWide is RunPanel for the first weights, and returns how many.
func runPanelWide(dst []float32, ld int, src []float32, o Offsets, runs []Run) int {
	if !wide() || len(runs) == 0 || len(o.off) == 0 {
		return 0
	}
	var last, to int32
	first := runs[0].From
	for _, r := range runs {
		first, last, to = min(first, r.From), max(last, r.From), max(to, r.At)
	}
	n, most := len(o.off), len(src)-int(last)-PanelWidth // the largest offset without reading past the end
	if o.hi > most {
		n = slices.IndexFunc(o.off, func(o int32) bool { return int(o) > most })
	}
	n = min(n, (len(dst)-int(to)-PanelWidth)/ld+1)
	if n <= 0 || len(dst) < int(to)+PanelWidth {
		return 0
	}
	_ = src[o.lo+int(first)]
	runPanelAVX2(n, &dst[0], ld, &src[0], &o.off[0], &runs[0].From, len(runs))
	return n
}

// quarters reports whether the positions are four runs of four.
func quarters(index *[PanelWidth]int32) bool {
	for j := 0; j < PanelWidth; j += 4 {
		if index[j+1] != index[j]+1 || index[j+2] != index[j]+2 || index[j+3] != index[j]+3 {
			return false
		}
	}
	return true
}

// panelProductWide is PanelProduct for positive k, rows and n.
func panelProductWide(y []float32, ldy int, w []float32, ldw, rows, k int, panel []float32, n int) {
	if avx512() {
		gemmPanel512(PanelWidth, rows, k, w, ldw, &panel[0], &zeros[0], y, ldy, n, false)
		return
	}
	var zero [PanelWidth]float32
	_, _ = w[(rows-1)*ldw+k-1], panel[k*PanelWidth-1]
	_ = y[(rows-1)*ldy+n-1]
	if n == PanelWidth {
		gemmPanel(widePanel, rows, k, w, ldw, &panel[0], &zero[0], y, ldy)
		return
	}
	for r := 0; r < rows; r += widestRows {
		h := min(widestRows, rows-r)
		var t [widestRows * PanelWidth]float32
		gemmBlocks(blocks{n: 1}, widePanel, h, k, &w[r*ldw], ldw, &panel[0], &zero[0], &t[0], PanelWidth)
		for q := range h {
			copy(y[(r+q)*ldy:(r+q)*ldy+n], t[q*PanelWidth:])
		}
	}
}

// panelsProductWide is PanelsProduct for positive k, rows and n. It reports whether it has run.
func panelsProductWide(y []float32, ldy int, tiles []float32, rows, k int, panels []float32, n int) bool {
	if !wide() {
		return false
	}
	_, _, _ = tiles[rows*k-1], panels[PanelsSpan(n)*k-1], y[(rows-1)*ldy+n-1]
	width := PanelsWidth()
	whole := n / width
	rest := n - whole*width
	if width == widestPanel {
		if whole > 0 {
			tiles32AVX512(rows, whole, k, &tiles[0], &panels[0], width*k, &y[0], ldy, width, width)
		}
		if rest > PanelWidth {
			tiles32AVX512(rows, 1, k, &tiles[0], &panels[whole*width*k], 0, &y[whole*width], ldy, 0, rest)
		} else if rest > 0 {
			tiles16AVX512(rows, 1, k, &tiles[0], &panels[whole*width*k], 0, &y[whole*width], ldy, 0, rest)
		}
		return true
	}
	if whole > 0 {
		tiles16AVX2(rows, whole, k, &tiles[0], &panels[0], width*k, &y[0], ldy, width)
	}
	for r := 0; r < rows && rest > 0; r += widestRows {
		h := min(widestRows, rows-r)
		var t [widestRows * PanelWidth]float32
		tiles16AVX2(h, 1, k, &tiles[r*k], &panels[whole*width*k], 0, &t[0], PanelWidth, 0)
		for q := range h {
			copy(y[(r+q)*ldy+whole*width:(r+q)*ldy+n], t[q*PanelWidth:])
		}
	}
	return true
}

// shiftedProductWide is ShiftedProduct for positive k, rows and n. It reports whether it has run.
func shiftedProductWide(y []float32, ldy int, tiles []float32, rows int, bias bool, src []float32, o Offsets, n int) bool {
	if !wide() {
		return false
	}
	k, width := len(o.off), len(o.off)
	if bias {
		width++
	}
	_, _, _, _ = tiles[rows*width-1], src[o.lo], src[o.hi+PanelsSpan(n)-1], y[(rows-1)*ldy+n-1]
	off, step := &o.off[0], PanelsWidth()
	whole := n / step
	at, rest := whole*step, n-whole*step
	if step == widestPanel {
		if whole > 0 {
			shifted32AVX512(rows, whole, k, bias, &tiles[0], &src[0], off, &y[0], ldy, step)
		}
		if rest > PanelWidth {
			shifted32AVX512(rows, 1, k, bias, &tiles[0], &src[at], off, &y[at], ldy, rest)
		} else if rest > 0 {
			shifted16AVX512(rows, 1, k, bias, &tiles[0], &src[at], off, &y[at], ldy, rest)
		}
		return true
	}
	if whole > 0 {
		shifted16AVX2(rows, whole, k, bias, &tiles[0], &src[0], off, &y[0], ldy)
	}
	for r := 0; r < rows && rest > 0; r += widestRows {
		h := min(widestRows, rows-r)
		var t [widestRows * PanelWidth]float32
		shifted16AVX2(h, 1, k, bias, &tiles[r*width], &src[at], off, &t[0], PanelWidth)
		for q := range h {
			copy(y[(r+q)*ldy+at:(r+q)*ldy+n], t[q*PanelWidth:])
		}
	}
	return true
}

func tapsWide(y, x []float32, o Offsets, w []float32, bias float32) int {
	n, off := len(y)&^7, o.off
	if n == 0 || len(off) == 0 || !wide() {
		return 0
	}
	_, _, _ = x[o.lo], x[n-1+o.hi], w[len(off)-1]
	tapsAVX2(n, &y[0], &x[0], len(off), &off[0], &w[0], bias)
	return n
}

func partPairsWide(even, odd, x []float32) int {
	n := len(even) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	partAVX2(n, &even[0], &odd[0], &x[0])
	return n
}

func weavePairsWide(y, even, odd []float32) int {
	n := len(even) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	weaveAVX2(n, &y[0], &even[0], &odd[0])
	return n
}

// depthwiseWide computes the whole vectors of features at the beginning of rows. It returns the number of features.
func depthwiseWide(y, x []float32, rows, f int, o Offsets, w, bias []float32) int {
	n := f &^ 7
	if n == 0 || len(o.off) == 0 || !wide() {
		return 0
	}
	_, _, _, _ = y[rows*f-1], x[o.lo], x[(rows-1)*f+o.hi+n-1], w[len(o.off)*f-1]
	var add *float32
	if bias != nil {
		_, add = bias[f-1], &bias[0]
	}
	depthwiseAVX2(n, rows, f, &y[0], &x[0], len(o.off), &o.off[0], &w[0], add)
	return n
}
