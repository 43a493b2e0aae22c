//go:build amd64 && !purego

package kernel

// besidePassWide runs besidePass by vectors. It reports whether it has.
func besidePassWide(x []float32, lanes int, l *besideLevel, w []float32, up bool) bool {
	if !wide() {
		return false
	}
	var f func(re, im *float32, stride, count int, w *float32)
	switch {
	case lanes == 16:
		f = besidePass512(l.radix, up)
	case l.radix == 3 && up:
		f = besideUp3AVX2
	case l.radix == 3:
		f = besideDown3AVX2
	case l.radix == 4 && up:
		f = besideUp4AVX2
	case l.radix == 4:
		f = besideDown4AVX2
	case l.radix == 5 && up:
		f = besideUp5AVX2
	case l.radix == 5:
		f = besideDown5AVX2
	case up:
		f = besideUp8AVX2
	default:
		f = besideDown8AVX2
	}
	_, _ = x[(l.radix-1)*l.stride+l.run*2*lanes-1], w[2*(l.radix-1)*l.run-1]
	re, im := &x[0], &x[lanes]
	if up {
		re, im = im, re
	}
	f(re, im, 4*l.stride, l.run, &w[0])
	return true
}

func besidePass512(radix int, up bool) func(re, im *float32, stride, count int, w *float32) {
	switch {
	case radix == 3 && up:
		return besideUp3AVX512
	case radix == 3:
		return besideDown3AVX512
	case radix == 4 && up:
		return besideUp4AVX512
	case radix == 4:
		return besideDown4AVX512
	case radix == 5 && up:
		return besideUp5AVX512
	case radix == 5:
		return besideDown5AVX512
	case up:
		return besideUp8AVX512
	}
	return besideDown8AVX512
}

// besideFlatWide runs besideFlat by vectors. It reports whether it has.
func besideFlatWide(x []float32, lanes, radix, count int, up bool) bool {
	if !wide() {
		return false
	}
	_ = x[count*radix*2*lanes-1]
	re, im := &x[0], &x[lanes]
	if up {
		re, im = im, re
	}
	switch {
	case lanes == 16 && radix == 4:
		besideFlat4AVX512(re, im, count)
	case lanes == 16:
		besideFlat8AVX512(re, im, count)
	case radix == 4:
		besideFlat4AVX2(re, im, count)
	default:
		besideFlat8AVX2(re, im, count)
	}
	return true
}

// besideFirstWide runs the butterflies of a run in the first pass, from butterfly from on, from the rows of f. It reports
// whether it has.
func besideFirstWide(x []float32, lanes int, l *besideLevel, from int, f *Features) bool {
	if !wide() {
		return false
	}
	run := besideFirst8AVX2
	if lanes == 16 {
		run = besideFirst8AVX512
	}
	w := l.w[14*from : 14*(from+l.run)]
	last := 3*l.m + from + l.run - 1 // point
	_, _ = x[7*l.stride+l.run*2*lanes-1], f.V[(2*last+1)*f.Stride+lanes-1]
	run(&x[0], &x[lanes], 4*l.stride, l.run, &w[0], &f.V[2*from*f.Stride], &f.V[(2*from+1)*f.Stride],
		8*l.m*f.Stride, 8*f.Stride)
	return true
}

// besideLastWide runs the butterflies of a run in the last pass, to the rows of f.
func besideLastWide(x []float32, lanes int, l *besideLevel, from int, f *Features) {
	run := besideLast8AVX2
	if lanes == 16 {
		run = besideLast8AVX512
	}
	w := l.w[14*from : 14*(from+l.run)]
	last := 3*l.m + from + l.run - 1 // point
	_, _ = x[7*l.stride+l.run*2*lanes-1], f.X[(2*last+1)*f.Stride+lanes-1]
	run(&x[lanes], &x[0], 4*l.stride, l.run, &w[0], &f.X[(2*from+1)*f.Stride], &f.X[2*from*f.Stride],
		8*l.m*f.Stride, 8*f.Stride)
}

// besideProductWide runs besideProduct by vectors. It reports whether it has.
func besideProductWide(x []float32, lanes int, at []int32, u, spec []float32) bool {
	if !wide() {
		return false
	}
	count := len(at) / 2
	_, _ = u[2*count-1], spec[count*4*lanes-1]
	if lanes == 16 {
		besideProductAVX512(&x[0], count, &at[0], &u[0], &spec[0])
	} else {
		besideProductAVX2(&x[0], count, &at[0], &u[0], &spec[0])
	}
	return true
}

// besideRowsWide copies rows of a vector. It reports whether it has.
func besideRowsWide(dst []float32, to int, src []float32, from, n, count int) bool {
	if n != 8 && n != 16 || !wide() || n == 16 && !avx512() {
		return false
	}
	_, _ = dst[(count-1)*to+n-1], src[(count-1)*from+n-1]
	if n == 16 {
		besideRowsAVX512(&dst[0], 4*to, &src[0], 4*from, count)
	} else {
		besideRowsAVX2(&dst[0], 4*to, &src[0], 4*from, count)
	}
	return true
}
