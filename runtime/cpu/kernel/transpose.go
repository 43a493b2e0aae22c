package kernel

// Transpose sets y to the transpose of x: y[j*ldy+i] = x[i*ldx+j] for i < rows and j < cols.
func Transpose(y []float32, ldy int, x []float32, ldx, rows, cols int) {
	r, c := transposeWide(y, ldy, x, ldx, rows, cols)
	if r < rows && c > 0 {
		transposeRest(y[r:], ldy, x[r*ldx:], ldx, rows-r, c)
	}
	if c < cols {
		transposeRest(y[c*ldy:], ldy, x[c:], ldx, rows, cols-c)
	}
}

// transposeRest is Transpose for the remainder next to whole squares.
func transposeRest(y []float32, ldy int, x []float32, ldx, rows, cols int) {
	for i := range rows {
		for j, v := range x[i*ldx : i*ldx+cols] {
			y[j*ldy+i] = v
		}
	}
}
