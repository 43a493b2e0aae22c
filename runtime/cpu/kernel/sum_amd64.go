//go:build amd64 && !purego

package kernel

// addRowsWide is AddRows for as many columns as whole vectors hold, and says how many.
func addRowsWide(sum []float64, x []float32, rows int) int {
	n := len(sum) &^ 15
	if n == 0 || rows == 0 || !wide() {
		return 0
	}
	addRowsAVX2(rows, n, &sum[0], &x[0], len(sum))
	return n
}
