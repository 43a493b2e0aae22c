//go:build amd64 && !purego

package kernel

// siso runs a system in blocks; _asm/siso.go describes the arguments.
func siso(blocks, vectors int, y, u *float32, stride int, direct, out, give *float32, ar, ai, zr, zi *float64,
	z *float32, add bool) {
	if add {
		sisoAddAVX2(blocks, vectors, y, u, stride, direct, out, give, ar, ai, zr, zi, z)
	} else {
		sisoAVX2(blocks, vectors, y, u, stride, direct, out, give, ar, ai, zr, zi, z)
	}
}

// scaleAddWide adds d·x to the whole vectors at the beginning of a row. It returns the number of their elements.
func scaleAddWide(y, x, d []float32) int {
	n := len(d) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_, _ = y[n-1], x[n-1]
	scaleAddAVX2(n, &y[0], &x[0], &d[0])
	return n
}
