package kernel

import "math"

// Elementwise arithmetic. An operand comes in one of four shapes, which the suffix names: the same as y; V: one number per
// feature, repeated for every row; S: one number; R: one number per row. y may be x.

// Add is y = a + b.
func Add(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := addWide(y, a, b); i < len(y); i++ {
		y[i] = a[i] + b[i]
	}
}

// Sub is y = a - b.
func Sub(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := subWide(y, a, b); i < len(y); i++ {
		y[i] = a[i] - b[i]
	}
}

// Mul is y = a·b.
func Mul(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := mulWide(y, a, b); i < len(y); i++ {
		y[i] = a[i] * b[i]
	}
}

// Div is y = a/b.
func Div(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := divWide(y, a, b); i < len(y); i++ {
		y[i] = a[i] / b[i]
	}
}

// Max is y = max(a, b), NaN where either is.
func Max(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := maxWide(y, a, b); i < len(y); i++ {
		y[i] = max(a[i], b[i])
	}
}

// Min is y = min(a, b), NaN where either is.
func Min(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := minWide(y, a, b); i < len(y); i++ {
		y[i] = min(a[i], b[i])
	}
}

// Affine is y = scale·x + shift for every row of len(scale) features. shift may be nil.
func Affine(y, x []float32, rows int, scale, shift []float32) {
	f := len(scale)
	for r := range rows {
		dst, src := y[r*f:(r+1)*f], x[r*f:(r+1)*f]
		if shift == nil {
			for i, s := range scale {
				dst[i] = s * src[i]
			}
			continue
		}
		t := shift[:f]
		for i := affineWide(dst, src, scale, t); i < f; i++ {
			dst[i] = scale[i]*src[i] + t[i]
		}
	}
}

// Scale is Affine for channels: y has len(d) features per row, x has f, and feature i of y is d[i]·x[i modulo f].
func Scale(y, x []float32, rows int, d []float32, f int) {
	for r := range rows {
		dst, src := y[r*len(d):(r+1)*len(d)], x[r*f:(r+1)*f]
		for lo := 0; lo < len(d); lo += f {
			Mul(dst[lo:lo+f], d[lo:lo+f], src)
		}
	}
}

// RepeatR fills row r of y, which has f features, with v[r].
func RepeatR(y, v []float32, rows, f int) {
	for r, a := range v[:rows] {
		row := y[r*f : (r+1)*f]
		for i := range row {
			row[i] = a
		}
	}
}

// Relu is y = x, or 0 where x is below zero.
func Relu(y, x []float32) {
	y = y[:len(x)]
	for i := reluWide(y, x); i < len(x); i++ {
		v := x[i]
		if v < 0 {
			v = 0
		}
		y[i] = v
	}
}

// LeakyRelu is y = x, or alpha·x where x is below zero.
func LeakyRelu(y, x []float32, alpha float32) {
	y = y[:len(x)]
	for i := leakyReluWide(y, x, alpha); i < len(x); i++ {
		v := x[i]
		if v < 0 {
			v *= alpha
		}
		y[i] = v
	}
}

// Neg is y = -x.
func Neg(y, x []float32) {
	y = y[:len(x)]
	for i := negWide(y, x); i < len(x); i++ {
		y[i] = -x[i]
	}
}

// Abs is y = |x|.
func Abs(y, x []float32) {
	y = y[:len(x)]
	for i := absWide(y, x); i < len(x); i++ {
		y[i] = float32(math.Abs(float64(x[i])))
	}
}

// Sqrt is y = √x, NaN below zero.
func Sqrt(y, x []float32) {
	y = y[:len(x)]
	for i := sqrtWide(y, x); i < len(x); i++ {
		y[i] = float32(math.Sqrt(float64(x[i])))
	}
}

// Clip is y = min(max(x, lo), hi), NaN where x is.
func Clip(y, x []float32, lo, hi float32) {
	y = y[:len(x)]
	for i := clipWide(y, x, lo, hi); i < len(x); i++ {
		y[i] = min(max(x[i], lo), hi)
	}
}
