package kernel

// WideWidth is the number of columns in a panel of WideProduct.
const WideWidth = 8

// WideProduct computes y[r][j] = Σ over p of w[r][p]·panel[p][j] in float64, for rows of k weights and the first n columns
// of a panel of WideWidth. Rows of w have stride ldw, and rows of y ldy.
func WideProduct(y []float64, ldy int, w []float64, ldw, rows, k int, panel []float64, n int) {
	if rows == 0 || n == 0 {
		return
	}
	r := 0
	if k > 0 {
		r = wideProduct(y, ldy, w, ldw, rows, k, panel, n)
	}
	for ; r < rows; r++ {
		var s [WideWidth]float64
		for p, a := range w[r*ldw : r*ldw+k] {
			b := panel[p*WideWidth : (p+1)*WideWidth]
			for j, x := range b {
				s[j] += a * x
			}
		}
		copy(y[r*ldy:r*ldy+n], s[:])
	}
}
