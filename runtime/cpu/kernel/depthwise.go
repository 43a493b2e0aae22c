package kernel

// Depthwise applies a filter to each feature along contiguous rows of f features: y[r][c] = bias[c] + Σ over t of
// w[t][c]·x[r·f+off[t]+c]. w has a row of f weights for each offset. bias has f numbers, or is nil. y must not overlap
// the rows of x that are read.
func Depthwise(y, x []float32, rows, f int, o Offsets, w, bias []float32) {
	if rows == 0 || f == 0 {
		return
	}
	from := depthwiseWide(y, x, rows, f, o, w, bias)
	if from == f {
		return
	}
	for r := range rows {
		dst := y[r*f+from : (r+1)*f]
		if bias == nil {
			clear(dst)
		} else {
			copy(dst, bias[from:f])
		}
		for t, off := range o.off {
			in, wt := x[r*f+int(off)+from:][:len(dst)], w[t*f+from:(t+1)*f]
			for c := range dst {
				dst[c] += wt[c] * in[c]
			}
		}
	}
}
