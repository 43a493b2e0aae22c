//go:build amd64 && !purego

package kernel

// gemmInt8Wide is GemmInt8 for panels. w.K, w.M and rows are positive.
func gemmInt8Wide(y []float32, ldy int, x []float32, ldx int, rows int, w *Int8, bias []float32) {
	_ = x[(rows-1)*ldx+Int8Words(w.K)-1] // checks the bounds of all that the kernels read and write
	_ = y[(rows-1)*ldy+w.M-1]
	for i := 0; i < w.M; i += w.panel {
		n := min(w.panel, w.M-i)
		add := zeros[:n]
		if bias != nil {
			add = bias[i : i+n]
		}
		switch {
		case w.panel == widePanel512:
			int8DotAVX512(rows, w.groups, &x[0], ldx, &w.data[i*w.groups*4], &w.init[i], &w.scale[i], &add[0], &y[i],
				ldy, n)
		case n == w.panel:
			w.wholePanel(rows, x, ldx, i, &add[0], &y[i], ldy)
		default:
			var b [widePanel]float32
			copy(b[:], add)
			for r := 0; r < rows; r += widestRows {
				var t [widestRows * widePanel]float32
				h := min(widestRows, rows-r)
				w.wholePanel(h, x[r*ldx:], ldx, i, &b[0], &t[0], widePanel)
				for q := range h {
					copy(y[(r+q)*ldy+i:(r+q)*ldy+i+n], t[q*widePanel:])
				}
			}
		}
	}
}

// wholePanel multiplies rows of x with the panel of widePanel rows from row i of W on.
func (p *Int8) wholePanel(rows int, x []float32, ldx, i int, bias, y *float32, ldy int) {
	panel, scale := &p.data[i*p.groups*4], &p.scale[i]
	if p.init != nil {
		int8DotAVX2(rows, p.groups, &x[0], ldx, panel, &p.init[i], scale, bias, y, ldy)
	} else {
		int8AVX2(rows, 2*p.groups, &x[0], ldx, panel, scale, bias, y, ldy)
	}
}

// The functions below compute whole vectors, and return the number of elements that they have computed.

// quantizeWide is QuantizeInt8 up to the first vector that needs quantizeInt8. It returns the number of vectors before
// that.
func quantizeWide(dst, x []float32, n, k int) int {
	if n == 0 || k == 0 || k%16 != 0 || !wide() {
		return 0
	}
	_, _ = dst[n*Int8Words(k)-1], x[n*k-1]
	if machine.int8.bytes {
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
