//go:build amd64 && !purego

package kernel

// widePanel is the number of rows of W in one panel of the vector kernels.
const widePanel = 16

// widestRows is the number of rows of x that one kernel takes at most.
const widestRows = 6

// gemmRows multiplies h rows of x, 1 to widestRows, with one panel. The calls are direct: through a function value their
// arguments would escape to the heap.
func gemmRows(h, k int, x *float32, ldx int, w, init *float32, y *float32, ldy int) {
	switch h {
	case 1:
		gemm1x16AVX2(k, x, ldx, w, init, y, ldy)
	case 2:
		gemm2x16AVX2(k, x, ldx, w, init, y, ldy)
	case 3:
		gemm3x16AVX2(k, x, ldx, w, init, y, ldy)
	case 4:
		gemm4x16AVX2(k, x, ldx, w, init, y, ldy)
	case 5:
		gemm5x16AVX2(k, x, ldx, w, init, y, ldy)
	default:
		gemm6x16AVX2(k, x, ldx, w, init, y, ldy)
	}
}

// gemmWide is Gemm for wide panels. k, m and rows are positive.
func gemmWide(y []float32, ldy int, x []float32, ldx int, rows int, w *Packed, bias []float32, add bool) {
	m, k := w.M, w.K
	for i := 0; i < m; i += widePanel {
		panel := &w.data[i*k]
		n := min(widePanel, m-i)
		var init [widePanel]float32
		if bias != nil {
			copy(init[:], bias[i:i+n])
		}
		direct := n == widePanel && !add
		for r := 0; r < rows; {
			h := min(widestRows, rows-r)
			_ = x[(r+h-1)*ldx+k-1] // what the kernel reads, checked here
			_ = y[(r+h-1)*ldy+i+n-1]
			if direct {
				gemmRows(h, k, &x[r*ldx], ldx, panel, &init[0], &y[r*ldy+i], ldy)
			} else {
				var t [widestRows * widePanel]float32
				gemmRows(h, k, &x[r*ldx], ldx, panel, &init[0], &t[0], widePanel)
				for q := range h {
					store(y[(r+q)*ldy+i:(r+q)*ldy+i+n], t[q*widePanel:], nil, add)
				}
			}
			r += h
		}
	}
}
