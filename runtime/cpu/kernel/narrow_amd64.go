//go:build amd64 && !purego

package kernel

// narrowPanel is the number of rows of W in one panel of the kernels in low precision, and narrowRows how many rows of x one
// of them takes at most.
const (
	narrowPanel = 16
	narrowRows  = 6
)

// gemmInt8Wide is GemmInt8 for panels. K, M and rows are positive.
func gemmInt8Wide(y []float32, ldy int, x []float32, ldx int, rows int, w *Int8, bias []float32) {
	_ = x[(rows-1)*ldx+2*w.groups] // what the kernels read and write, checked here
	_ = y[(rows-1)*ldy+w.M-1]
	for i := 0; i < w.M; i += narrowPanel {
		panel, n := w.data[i*w.groups*4:], min(narrowPanel, w.M-i)
		var b [narrowPanel]float32
		if bias != nil {
			copy(b[:], bias[i:i+n])
		}
		if n == narrowPanel {
			int8Rows(rows, w.groups, x, ldx, panel, &w.scale[i], &b[0], y[i:], ldy)
			continue
		}
		for r := 0; r < rows; r += narrowRows {
			var t [narrowRows * narrowPanel]float32
			h := min(narrowRows, rows-r)
			int8Rows(h, w.groups, x[r*ldx:], ldx, panel, &w.scale[i], &b[0], t[:], narrowPanel)
			for q := range h {
				copy(y[(r+q)*ldy+i:(r+q)*ldy+i+n], t[q*narrowPanel:])
			}
		}
	}
}

// int8Rows multiplies rows rows of x, at least one, with one panel. The calls are direct: through a function value their
// arguments would escape to the heap.
func int8Rows(rows, groups int, x []float32, ldx int, panel []int8, scale, bias *float32, y []float32, ldy int) {
	blocks, rest := rows/narrowRows, rows%narrowRows
	w := &panel[0]
	if blocks > 0 {
		int8x6AVX2(blocks, groups, &x[0], ldx, w, scale, bias, &y[0], ldy)
	}
	if rest == 0 {
		return
	}
	done := rows - rest
	xr, yr := &x[done*ldx], &y[done*ldy]
	switch rest {
	case 1:
		int8x1AVX2(1, groups, xr, ldx, w, scale, bias, yr, ldy)
	case 2:
		int8x2AVX2(1, groups, xr, ldx, w, scale, bias, yr, ldy)
	case 3:
		int8x3AVX2(1, groups, xr, ldx, w, scale, bias, yr, ldy)
	case 4:
		int8x4AVX2(1, groups, xr, ldx, w, scale, bias, yr, ldy)
	default:
		int8x5AVX2(1, groups, xr, ldx, w, scale, bias, yr, ldy)
	}
}

// gemmBF16Wide is GemmBF16 for panels. K, M and rows are positive.
func gemmBF16Wide(y []float32, ldy int, x []float32, ldx int, rows int, w *BF16, bias []float32) {
	_ = x[(rows-1)*ldx+4*w.groups-1] // what the kernels read and write, checked here
	_ = y[(rows-1)*ldy+w.M-1]
	for i := 0; i < w.M; i += narrowPanel {
		panel, n := w.data[i*w.groups*4:], min(narrowPanel, w.M-i)
		var b [narrowPanel]float32
		if bias != nil {
			copy(b[:], bias[i:i+n])
		}
		if n == narrowPanel {
			bf16Rows(rows, w.groups, x, ldx, panel, &b[0], y[i:], ldy)
			continue
		}
		for r := 0; r < rows; r += narrowRows {
			var t [narrowRows * narrowPanel]float32
			h := min(narrowRows, rows-r)
			bf16Rows(h, w.groups, x[r*ldx:], ldx, panel, &b[0], t[:], narrowPanel)
			for q := range h {
				copy(y[(r+q)*ldy+i:(r+q)*ldy+i+n], t[q*narrowPanel:])
			}
		}
	}
}

// bf16Rows multiplies rows rows of x, at least one, with one panel.
func bf16Rows(rows, groups int, x []float32, ldx int, panel []uint16, bias *float32, y []float32, ldy int) {
	blocks, rest := rows/narrowRows, rows%narrowRows
	w := &panel[0]
	if blocks > 0 {
		bf16x6AVX2(blocks, groups, &x[0], ldx, w, bias, &y[0], ldy)
	}
	if rest == 0 {
		return
	}
	done := rows - rest
	xr, yr := &x[done*ldx], &y[done*ldy]
	switch rest {
	case 1:
		bf16x1AVX2(1, groups, xr, ldx, w, bias, yr, ldy)
	case 2:
		bf16x2AVX2(1, groups, xr, ldx, w, bias, yr, ldy)
	case 3:
		bf16x3AVX2(1, groups, xr, ldx, w, bias, yr, ldy)
	case 4:
		bf16x4AVX2(1, groups, xr, ldx, w, bias, yr, ldy)
	default:
		bf16x5AVX2(1, groups, xr, ldx, w, bias, yr, ldy)
	}
}

// The functions below do as much of their work as whole vectors can, and say how much that is.

func largestWide(x []float32) (done int, most uint32) {
	n := len(x) &^ 15
	if n == 0 || !wide() {
		return 0, 0
	}
	return n, largestAVX2(n, &x[0])
}

func roundInt16Wide(y []int16, x []float32, f float32) int {
	n := len(x) &^ 15
	if n == 0 || !wide() {
		return 0
	}
	_ = y[n-1]
	roundInt16AVX2(n, &y[0], &x[0], f)
	return n
}

func roundBF16Wide(y, x []float32) int {
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_ = y[n-1]
	roundBF16AVX2(n, &y[0], &x[0])
	return n
}
