//go:build amd64 && !purego

package kernel

// addRowsWide is AddRows for the whole vectors at the beginning of rows. It returns the number of columns.
func addRowsWide(sum []float64, x []float32, rows int) int {
	n := len(sum) &^ 15
	if n == 0 || rows == 0 || !wide() {
		return 0
	}
	addRowsAVX2(rows, n, &sum[0], &x[0], len(sum))
	return n
}
