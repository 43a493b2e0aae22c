//go:build amd64 && !purego

package kernel

// wideProduct is WideProduct for the first rows, and returns how many: all, or none.
func wideProduct(y []float64, ldy int, w []float64, ldw, rows, k int, panel []float64, n int) int {
	if !wide() {
		return 0
	}
	_, _, _ = panel[k*WideWidth-1], w[(rows-1)*ldw+k-1], y[(rows-1)*ldy+n-1]
	for r := 0; r < rows; r += 4 {
		if r+4 <= rows && n == WideWidth {
			wideProductAVX2(k, &y[r*ldy], ldy, &w[r*ldw], ldw, &panel[0])
			continue
		}
		var part [4 * WideWidth]float64
		if r+4 <= rows {
			wideProductAVX2(k, &part[0], WideWidth, &w[r*ldw], ldw, &panel[0])
		}
		for i := r; i < min(r+4, rows); i++ {
			if r+4 > rows { // the same row four times
				wideProductAVX2(k, &part[(i-r)*WideWidth], 0, &w[i*ldw], 0, &panel[0])
			}
			copy(y[i*ldy:i*ldy+n], part[(i-r)*WideWidth:])
		}
	}
	return rows
}
