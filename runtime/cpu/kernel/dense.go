package kernel

// MatVec adds M x to y, for a square row-major matrix of len(x) columns.
func MatVec(y, m, x []float64) {
	n := len(x)
	for i := range y {
		row := m[i*n : (i+1)*n]
		s0, s1 := 0.0, 0.0
		j := 0
		for ; j+2 <= n; j += 2 {
			s0 += row[j] * x[j]
			s1 += row[j+1] * x[j+1]
		}
		if j < n {
			s0 += row[j] * x[j]
		}
		y[i] += s0 + s1
	}
}

// DenseForward advances the state z of one head over rows steps, z = A z + g[t], and writes it to x[t]. Rows of x
// and g have stride ld. x may be nil. next is scratch of len(z) numbers.
func DenseForward(x, g []float32, ld, rows int, a, z, next []float64) {
	for t := range rows {
		in := g[t*ld : t*ld+len(z)]
		for i, v := range in {
			next[i] = float64(v)
		}
		MatVec(next, a, z)
		copy(z, next)
		if x == nil {
			continue
		}
		out := x[t*ld : t*ld+len(z)]
		for i, v := range z {
			out[i] = float32(v)
		}
	}
}

// DenseBackward is like DenseForward, from the last step to the first. x[t] is the state before g[t] is added. With
// add, the states are added to x.
func DenseBackward(x, g []float32, ld, rows int, a, z, next []float64, add bool) {
	for t := rows - 1; t >= 0; t-- {
		if x != nil {
			out := x[t*ld : t*ld+len(z)]
			for i, v := range z {
				if add {
					v += float64(out[i])
				}
				out[i] = float32(v)
			}
		}
		for i, v := range g[t*ld : t*ld+len(z)] {
			next[i] = float64(v)
		}
		MatVec(next, a, z)
		copy(z, next)
	}
}

// MatVec32 is MatVec for a vector of float32 numbers.
func MatVec32(y, m []float64, x []float32) {
	n := len(x)
	for i := range y {
		s := 0.0
		for j, a := range m[i*n : (i+1)*n] {
			s += a * float64(x[j])
		}
		y[i] += s
	}
}
