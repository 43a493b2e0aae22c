package kernel

// Heads computes a block-diagonal product row by row: block i of y is w[i] times block i of x, or, where shared blocks of x
// repeat (channels), block i modulo their number. Blocks of y lie side by side; so do those of x.
func Heads(y []float32, ldy int, x []float32, ldx int, rows int, w []*Packed, shared int, add bool) {
	for i, p := range w {
		src := i
		if shared > 0 {
			src = i % shared
		}
		if rows == 0 {
			return
		}
		Gemm(y[i*p.M:], ldy, x[src*p.K:], ldx, rows, p, nil, add)
	}
}
