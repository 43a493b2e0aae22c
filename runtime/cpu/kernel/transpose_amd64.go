//go:build amd64 && !purego

package kernel

// transposeWide transposes whole squares of 8 by 8 numbers. It returns the number of rows and columns that they cover,
// or 0, 0 if there are none.
func transposeWide(y []float32, ldy int, x []float32, ldx, rows, cols int) (r, c int) {
	r, c = rows&^7, cols&^7
	if r == 0 || c == 0 || !wide() {
		return 0, 0
	}
	_, _ = x[(r-1)*ldx+c-1], y[(c-1)*ldy+r-1]
	if r < c { // along the longer side, so that few cache lines are in use
		for i := 0; i < r; i += 8 {
			transposeAVX2(c/8, &y[i], ldy, 8*ldy, &x[i*ldx], ldx, 8)
		}
		return r, c
	}
	for j := 0; j < c; j += 8 {
		transposeAVX2(r/8, &y[j*ldy], ldy, 8, &x[j], ldx, 8*ldx)
	}
	return r, c
}
