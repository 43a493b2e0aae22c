package kernel

// AddRows adds rows of x, which are contiguous and of len(sum) numbers, to sum, in order.
func AddRows(sum []float64, x []float32, rows int) {
	n := len(sum)
	x = x[:rows*n]
	done := addRowsWide(sum, x, rows)
	if done == n {
		return
	}
	for r := range rows {
		for j, v := range x[r*n+done : (r+1)*n] {
			sum[done+j] += float64(v)
		}
	}
}
