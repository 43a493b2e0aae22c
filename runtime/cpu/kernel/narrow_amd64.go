//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

// narrowPanel is the number of rows of W in one panel of the kernels in low precision, and narrowRows how many rows of x one
// of them takes at most.
const (
	narrowPanel = 16
	narrowRows  = 6
	vnniPanel   = 32
)

// vnni says that products of bytes run on AVX512_VNNI. Their numbers are the same everywhere, so this is no variant.
func vnni() bool { return variant == "avx512" && cpu.X86.HasAVX512VNNI }

// int8Panel gives the rows and columns of W that lie side by side in a panel of bytes.
func int8Panel() (panel, side int) {
	switch {
	case vnni():
		return vnniPanel, 4
	case wide():
		return narrowPanel, 2
	}
	return 1, 1
}

// int8Bytes says that activations are bytes with int8Offset added, and not numbers of 16 bits.
func int8Bytes() bool { return vnni() }

// gemmInt8Wide is GemmInt8 for panels. K, M and rows are positive.
func gemmInt8Wide(y []float32, ldy int, x []float32, ldx int, rows int, w *Int8, bias []float32) {
	_ = x[(rows-1)*ldx+Int8Words(w.K)-1] // what the kernels read and write, checked here
	_ = y[(rows-1)*ldy+w.M-1]
	for i := 0; i < w.M; i += w.panel {
		n := min(w.panel, w.M-i)
		var b [vnniPanel]float32
		if bias != nil {
			copy(b[:], bias[i:i+n])
		}
		if n == w.panel {
			w.rows(rows, x, ldx, i, &b[0], y[i:], ldy)
			continue
		}
		for r := 0; r < rows; r += narrowRows {
			var t [narrowRows * vnniPanel]float32
			h := min(narrowRows, rows-r)
			w.rows(h, x[r*ldx:], ldx, i, &b[0], t[:], w.panel)
			for q := range h {
				copy(y[(r+q)*ldy+i:(r+q)*ldy+i+n], t[q*w.panel:])
			}
		}
	}
}

// rows multiplies rows rows of x, at least one, with the panel that begins at row i of W.
func (p *Int8) rows(rows int, x []float32, ldx, i int, bias *float32, y []float32, ldy int) {
	blocks, rest := rows/narrowRows, rows%narrowRows
	w, scale := &p.data[i*p.groups*4], &p.scale[i]
	if p.init != nil {
		init := &p.init[i]
		if blocks > 0 {
			int8x6VNNI(blocks, p.groups, &x[0], ldx, w, init, scale, bias, &y[0], ldy)
		}
		if rest > 0 {
			int8RestVNNI(rest, p.groups, &x[(rows-rest)*ldx], ldx, w, init, scale, bias, &y[(rows-rest)*ldy], ldy)
		}
		return
	}
	if blocks > 0 {
		int8x6AVX2(blocks, p.groups, &x[0], ldx, w, scale, bias, &y[0], ldy)
	}
	if rest > 0 {
		int8RestAVX2(rest, p.groups, &x[(rows-rest)*ldx], ldx, w, scale, bias, &y[(rows-rest)*ldy], ldy)
	}
}

// int8RestAVX2 and int8RestVNNI multiply 1 to narrowRows-1 rows. The calls are direct: through a function value their arguments
// would escape to the heap.
func int8RestAVX2(rows, groups int, x *float32, ldx int, w *int8, scale, bias, y *float32, ldy int) {
	switch rows {
	case 1:
		int8x1AVX2(1, groups, x, ldx, w, scale, bias, y, ldy)
	case 2:
		int8x2AVX2(1, groups, x, ldx, w, scale, bias, y, ldy)
	case 3:
		int8x3AVX2(1, groups, x, ldx, w, scale, bias, y, ldy)
	case 4:
		int8x4AVX2(1, groups, x, ldx, w, scale, bias, y, ldy)
	default:
		int8x5AVX2(1, groups, x, ldx, w, scale, bias, y, ldy)
	}
}

func int8RestVNNI(rows, groups int, x *float32, ldx int, w *int8, init *int32, scale, bias, y *float32, ldy int) {
	switch rows {
	case 1:
		int8x1VNNI(1, groups, x, ldx, w, init, scale, bias, y, ldy)
	case 2:
		int8x2VNNI(1, groups, x, ldx, w, init, scale, bias, y, ldy)
	case 3:
		int8x3VNNI(1, groups, x, ldx, w, init, scale, bias, y, ldy)
	case 4:
		int8x4VNNI(1, groups, x, ldx, w, init, scale, bias, y, ldy)
	default:
		int8x5VNNI(1, groups, x, ldx, w, init, scale, bias, y, ldy)
	}
}

// gemmBF16Wide is GemmBF16 for panels. K, M and rows are positive.
func gemmBF16Wide(y []float32, ldy int, x []float32, ldx int, rows int, w *BF16, bias []float32) {
	_ = x[(rows-1)*ldx+4*w.groups-1] // what the kernels read and write, checked here
	_ = y[(rows-1)*ldy+w.M-1]
	i := 0
	if rows == 1 {
		i = bf16Vector(y, x, w, bias)
	}
	for ; i < w.M; i += narrowPanel {
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

// bf16Vector multiplies one row of x with as many panels as come in fours, and says how many outputs it served.
func bf16Vector(y, x []float32, w *BF16, bias []float32) int {
	const four = 4 * narrowPanel
	m := w.M &^ (four - 1)
	for i := 0; i < m; i += gemvMost {
		n := min(gemvMost, m-i)
		b := zeros[:n]
		if bias != nil {
			b = bias[i : i+n]
		}
		bf16VectorAVX2(n/four, w.groups*4, &x[0], &w.data[i*w.groups*4], &b[0], &y[i])
	}
	return m
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

// quantizeWide is QuantizeInt8 up to the first vector that it leaves to quantizeInt8; it gives how many come before that.
func quantizeWide(dst, x []float32, n, k int) int {
	if n == 0 || k == 0 || k%16 != 0 || !wide() {
		return 0
	}
	_, _ = dst[n*Int8Words(k)-1], x[n*k-1]
	if int8Bytes() {
		return quantizeUint8AVX2(n, k, &dst[0], &x[0])
	}
	return quantizeInt16AVX2(n, k, &dst[0], &x[0])
}

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

func roundUint8Wide(y []uint8, x []float32, f float32) int {
	n := len(x) &^ 15
	if n == 0 {
		return 0
	}
	_ = y[n-1]
	roundUint8AVX2(n, &y[0], &x[0], f)
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
