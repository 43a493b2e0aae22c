//go:build amd64 && !purego

package kernel

// The functions below compute all elements, since AVX-512 masks the last vector.

func unary512(y, x []float32, f func(n int, y, x *float32)) int {
	n := len(x)
	if n == 0 {
		return 0
	}
	_ = y[n-1]
	f(n, &y[0], &x[0])
	return n
}

func alpha512(y, x []float32, alpha float32, f func(n int, y, x *float32, alpha float32)) int {
	n := len(x)
	if n == 0 {
		return 0
	}
	_ = y[n-1]
	f(n, &y[0], &x[0], alpha)
	return n
}

func unary2x512(y, x []float32, a, b float32, f func(n int, y, x *float32, a, b float32)) int {
	n := len(x)
	if n == 0 {
		return 0
	}
	_ = y[n-1]
	f(n, &y[0], &x[0], a, b)
	return n
}

func binary512(y, a, b []float32, f func(n int, y, a, b *float32)) int {
	n := len(a)
	if n == 0 {
		return 0
	}
	_, _ = y[n-1], b[n-1]
	f(n, &y[0], &a[0], &b[0])
	return n
}

func affine512(y, x, scale, shift []float32) int {
	n := len(x)
	if n == 0 {
		return 0
	}
	_, _, _ = y[n-1], scale[n-1], shift[n-1]
	affineAVX512(n, &y[0], &x[0], &scale[0], &shift[0])
	return n
}

// scan512 is scanWide for all states lo…hi-1, 32 or 16 at a time, and the last 1 to 8. rows is positive.
func scan512(d *Diagonal, x, v []float32, rows, lo, hi int, zr, zi []float64, backward bool, mode int) {
	n := d.N()
	stride, first := n, 0
	four, two, one := scanForward32AVX512, scanForward16AVX512, scanForward8AVX512
	if backward {
		stride, first = -n, (rows-1)*n
		switch mode {
		case scanDrop:
			four, two, one = scanBackwardDrop32AVX512, scanBackwardDrop16AVX512, scanBackwardDrop8AVX512
		case scanSet:
			four, two, one = scanBackwardSet32AVX512, scanBackwardSet16AVX512, scanBackwardSet8AVX512
		default:
			four, two, one = scanBackwardAdd32AVX512, scanBackwardAdd16AVX512, scanBackwardAdd8AVX512
		}
	}
	for j := lo; j < hi; {
		f, step := one, 8
		switch left := hi - j; {
		case left > 24:
			f, step = four, 32
		case left > 8:
			f, step = two, 16
		}
		states := min(step, hi-j)
		_ = v[(rows-1)*n+j+states-1]
		var out *float32
		if mode != scanDrop {
			_ = x[(rows-1)*n+j+states-1]
			out = &x[first+j]
		}
		_, _ = zr[j+states-1], zi[j+states-1]
		f(rows, out, &v[first+j], stride, &d.ARe[j], &d.AIm[j], &d.BRe[j], &d.BIm[j], &zr[j], &zi[j], states-step+8)
		j += step
	}
}
