package kernel

import "slices"

// A convolution is a product of the filters, rows of K weights, with panels. A panel holds, for PanelWidth positions of
// the output and each weight, the number of the input that is multiplied by the weight.

// PanelWidth is the number of positions in a panel.
const PanelWidth = 16

// Offsets are the offsets of the inputs of a filter's weights, relative to the first weight's input.
type Offsets struct {
	off    []int32
	lo, hi int
}

// NewOffsets returns the Offsets off. It keeps the slice.
func NewOffsets(off []int32) Offsets {
	o := Offsets{off: off}
	if len(off) > 0 {
		o.lo, o.hi = int(slices.Min(off)), int(slices.Max(off))
	}
	return o
}

// Panel gathers a panel: dst[i·PanelWidth+j] = src[off[i]+index[j]] for each weight i and position j. contiguous
// means that index[j] is index[0]+j.
func Panel(dst, src []float32, o Offsets, index *[PanelWidth]int32, contiguous bool) {
	if len(o.off) == 0 || panelWide(dst, src, o, index, contiguous) {
		return
	}
	for i, o := range o.off {
		row := dst[i*PanelWidth : (i+1)*PanelWidth]
		if contiguous {
			copy(row, src[o+index[0]:])
			continue
		}
		for j, x := range index {
			row[j] = src[o+x]
		}
	}
}

// Run is a run of N consecutive positions of a panel, at most PanelWidth, from At on: the inputs of their first weights are
// consecutive from From on.
type Run struct{ From, At, N int32 }

// RunPanel gathers a panel of rows of ld positions by runs, in the order of At: dst[i·ld+At+j] = src[off[i]+From+j] for each
// weight i, run and j < N. It may write PanelWidth numbers beyond the end of a run, in dst.
func RunPanel(dst []float32, ld int, src []float32, o Offsets, runs []Run) {
	from := runPanelWide(dst, ld, src, o, runs)
	for i, o := range o.off[from:] {
		row := dst[(from+i)*ld:]
		for _, r := range runs {
			copy(row[r.At:r.At+r.N], src[o+r.From:])
		}
	}
}

// PanelProduct computes y[r][j] = Σ over p of w[r][p]·panel[p][j] for rows of k weights and the first n positions of
// the panel. Rows of w have stride ldw, and rows of y ldy.
func PanelProduct(y []float32, ldy int, w []float32, ldw, rows, k int, panel []float32, n int) {
	if rows == 0 || n == 0 {
		return
	}
	if machine.vectors && k > 0 {
		panelProductWide(y, ldy, w, ldw, rows, k, panel, n)
		return
	}
	for r := range rows {
		var s [PanelWidth]float32
		for p, a := range w[r*ldw : r*ldw+k] {
			b := panel[p*PanelWidth : (p+1)*PanelWidth]
			for j, x := range b {
				s[j] += a * x
			}
		}
		copy(y[r*ldy:r*ldy+n], s[:])
	}
}

// Adjacent panels contain the positions of a larger product: as many panels of PanelsWidth() positions as possible,
// and one of PanelWidth if that suffices for the rest. The panel with position c starts at c·k, for k weights.

// PanelsWidth returns the width of the panels of PanelsProduct; PanelWidth, or a multiple of it.
func PanelsWidth() int { return machine.panels }

// PanelsSpan returns the positions of panels for n positions, those that only fill them included.
func PanelsSpan(n int) int { return (n + PanelWidth - 1) / PanelWidth * PanelWidth }

// Tiles packs the rows of a matrix, of k weights with stride ld, for PanelsProduct. The product of the rows from row
// r on needs the numbers from r·k on, for r a multiple of 12.
func Tiles(dst, w []float32, ld, rows, k int) {
	for r := 0; r < rows; r += machine.tile {
		n := min(machine.tile, rows-r)
		Transpose(dst[r*k:], n, w[r*ld:], ld, n, k)
	}
}

// PanelsProduct computes y[r][j] = Σ over p of w[r][p]·panel[p][j] for the first n positions of adjacent panels,
// and rows of k weights that Tiles has packed. Rows of y have stride ldy.
func PanelsProduct(y []float32, ldy int, tiles []float32, rows, k int, panels []float32, n int) {
	if rows == 0 || n == 0 || k > 0 && panelsProductWide(y, ldy, tiles, rows, k, panels, n) {
		return
	}
	step := machine.tile
	for r := range rows {
		first := r / step * step
		tile, height := tiles[first*k:], min(step, rows-first)
		for c := 0; c < n; c += PanelWidth {
			var s [PanelWidth]float32
			for p := range k {
				a, b := tile[p*height+r-first], panels[c*k+p*PanelWidth:][:PanelWidth]
				for j, x := range b {
					s[j] += a * x
				}
			}
			copy(y[r*ldy+c:r*ldy+min(n, c+PanelWidth)], s[:])
		}
	}
}

// ShiftedProduct computes y[r][j] = b[r] + Σ over p of w[r][p]·src[o[p]+j] for j < n, and rows of weights that
// Tiles has packed, with the bias after the weights of each row; without, b is 0. So src need not be copied to
// panels. It reads up to PanelsSpan(n) positions. Rows of y have stride ldy.
func ShiftedProduct(y []float32, ldy int, tiles []float32, rows int, bias bool, src []float32, o Offsets, n int) {
	k, width := len(o.off), len(o.off)
	if bias {
		width++
	}
	if rows == 0 || n == 0 || k > 0 && shiftedProductWide(y, ldy, tiles, rows, bias, src, o, n) {
		return
	}
	step := machine.tile
	for r := range rows {
		first := r / step * step
		tile, height := tiles[first*width:], min(step, rows-first)
		at := y[r*ldy : r*ldy+n]
		for c := 0; c < n; c += PanelWidth {
			var s [PanelWidth]float32
			for p, from := range o.off {
				a := tile[p*height+r-first]
				for j, x := range src[int(from)+c:][:PanelWidth] {
					s[j] += a * x
				}
			}
			if bias {
				for j := range s {
					s[j] += tile[k*height+r-first]
				}
			}
			copy(at[c:], s[:])
		}
	}
}

// Taps applies a filter to one channel: y[i] = bias + Σ over t of w[t]·x[i+off[t]].
func Taps(y, x []float32, o Offsets, w []float32, bias float32) {
	for i := tapsWide(y, x, o, w, bias); i < len(y); i++ {
		s := bias
		for t, o := range o.off {
			s += w[t] * x[i+int(o)]
		}
		y[i] = s
	}
}

// Part separates x: even[i] = x[2i] and odd[i] = x[2i+1].
func Part(even, odd, x []float32) {
	odd, x = odd[:len(even)], x[:2*len(even)]
	for i := partPairsWide(even, odd, x); i < len(even); i++ {
		even[i], odd[i] = x[2*i], x[2*i+1]
	}
}

// Weave is the inverse of Part: y[2i] = even[i] and y[2i+1] = odd[i].
func Weave(y, even, odd []float32) {
	odd, y = odd[:len(even)], y[:2*len(even)]
	for i := weavePairsWide(y, even, odd); i < len(even); i++ {
		y[2*i], y[2*i+1] = even[i], odd[i]
	}
}
