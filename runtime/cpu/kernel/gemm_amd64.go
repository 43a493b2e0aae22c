//go:build amd64 && !purego

package kernel

const (
	widePanel   = 16 // rows of W in a panel of AVX2
	widestRows  = 6  // rows that the kernels of AVX2 multiply at once
	widestTile  = 12 // of AVX-512
	widestPanel = 2 * PanelWidth
)

// blocks are n blocks of one call. From a block to the next, x, the panel and y advance by dx, dw and dy numbers.
type blocks struct{ n, dx, dw, dy int }

// gemmBlocks multiplies blocks of rows of x with panels of 4, 8 or 16 outputs: a few rows of all blocks, then the next
// rows. Calls through a function value would move the arguments to the heap.
func gemmBlocks(b blocks, width, rows, k int, x *float32, ldx int, w, init *float32, y *float32, ldy int) {
	switch width {
	case 16:
		gemm16AVX2(rows, b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy)
	case 8:
		gemm8AVX2(rows, b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy)
	default:
		gemm4AVX2(rows, b.n, k, x, ldx, b.dx, w, b.dw, init, y, ldy, b.dy)
	}
}

// gemmPanel multiplies rows ≥ 1 rows of x with one panel of 4, 8 or 16 outputs.
func gemmPanel(width, rows, k int, x []float32, ldx int, w, init *float32, y []float32, ldy int) {
	_ = x[(rows-1)*ldx+k-1] // checks the bounds of all that the kernels read and write
	_ = y[(rows-1)*ldy+width-1]
	gemmBlocks(blocks{n: 1}, width, rows, k, &x[0], ldx, w, init, &y[0], ldy)
}

// gemmWide is Gemm for the panels of the vector kernels. w.K, w.M and rows are positive. It may write spill numbers
// beyond the M numbers of each row, which the caller overwrites later.
func gemmWide(y []float32, ldy int, x []float32, ldx int, rows int, w *Packed, bias []float32, add bool, spill int) {
	if w.panel == widePanel512 {
		gemm512(y, ldy, x, ldx, rows, w, bias, add)
		return
	}
	m, k := w.M, w.K
	i := 0
	if rows == 1 && !add {
		i = gemvWide(y, x, w, bias)
	}
	for ; i < m; i += widePanel {
		panel, n, width := &w.data[i*k], min(widePanel, m-i), widePanel
		if n < widePanel {
			width = w.last
		}
		var init [widePanel]float32
		if bias != nil {
			copy(init[:], bias[i:i+n])
		}
		if n+spill >= width && !add {
			gemmPanel(width, rows, k, x, ldx, panel, &init[0], y[i:], ldy)
			continue
		}
		for r := 0; r < rows; r += widestRows {
			h := min(widestRows, rows-r)
			var t [widestRows * widePanel]float32
			gemmPanel(width, h, k, x[r*ldx:], ldx, panel, &init[0], t[:], width)
			for q := range h {
				store(y[(r+q)*ldy+i:(r+q)*ldy+i+n], t[q*width:], nil, add)
			}
		}
	}
}

// zeros stand for an absent bias.
var zeros [gemvMost]float32

// gemvMost is the largest number of outputs that gemvWide computes at once.
const gemvMost = 1024

// gemvWide multiplies one row of x with a multiple of four panels. It returns the number of outputs.
func gemvWide(y, x []float32, w *Packed, bias []float32) int {
	const four = 4 * widePanel
	m := w.M &^ (four - 1)
	_ = x[w.K-1]
	for i := 0; i < m; i += gemvMost {
		n := min(gemvMost, m-i)
		init := zeros[:n]
		if bias != nil {
			init = bias[i : i+n]
		}
		_ = y[i+n-1]
		gemv64AVX2(n/four, w.K, &x[0], &w.data[i*w.K], &init[0], &y[i])
	}
	return m
}
