package kernel

import "math"

// Elementwise arithmetic. The suffix of a function gives the shape of its last operand: none, like y; S, one number;
// R, one number per row. y may be x.

// Add computes y = a + b.
func Add(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := addWide(y, a, b); i < len(y); i++ {
		y[i] = a[i] + b[i]
	}
}

// Sub computes y = a - b.
func Sub(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := subWide(y, a, b); i < len(y); i++ {
		y[i] = a[i] - b[i]
	}
}

// Mul computes y = a·b.
func Mul(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := mulWide(y, a, b); i < len(y); i++ {
		y[i] = a[i] * b[i]
	}
}

// Div computes y = a/b.
func Div(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := divWide(y, a, b); i < len(y); i++ {
		y[i] = a[i] / b[i]
	}
}

// Max computes y = max(a, b); NaN if either is NaN.
func Max(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := maxWide(y, a, b); i < len(y); i++ {
		y[i] = max(a[i], b[i])
	}
}

// Min computes y = min(a, b); NaN if either is NaN.
func Min(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := minWide(y, a, b); i < len(y); i++ {
		y[i] = min(a[i], b[i])
	}
}

// Affine computes y = scale·x + shift for rows of len(scale) features. shift may be nil.
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

// Scale computes feature i of y as d[i]·x[i%f], for rows of len(d) features of y and f features of x.
func Scale(y, x []float32, rows int, d []float32, f int) {
	for r := range rows {
		dst, src := y[r*len(d):(r+1)*len(d)], x[r*f:(r+1)*f]
		for lo := 0; lo < len(d); lo += f {
			Mul(dst[lo:lo+f], d[lo:lo+f], src)
		}
	}
}

// RepeatR sets all f features of row r of y to v[r].
func RepeatR(y, v []float32, rows, f int) {
	for r, a := range v[:rows] {
		row := y[r*f : (r+1)*f]
		for i := range row {
			row[i] = a
		}
	}
}

// Relu computes y = x, or 0 for x below zero.
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

// LeakyRelu computes y = x, or alpha·x for x below zero.
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

// Neg computes y = -x.
func Neg(y, x []float32) {
	y = y[:len(x)]
	for i := negWide(y, x); i < len(x); i++ {
		y[i] = -x[i]
	}
}

// Abs computes y = |x|.
func Abs(y, x []float32) {
	y = y[:len(x)]
	for i := absWide(y, x); i < len(x); i++ {
		y[i] = float32(math.Abs(float64(x[i])))
	}
}

// Sqrt computes y = √x; NaN below zero.
func Sqrt(y, x []float32) {
	y = y[:len(x)]
	for i := sqrtWide(y, x); i < len(x); i++ {
		y[i] = float32(math.Sqrt(float64(x[i])))
	}
}

// Cube computes y = x³ in float64, rounded once.
func Cube(y, x []float32) {
	y = y[:len(x)]
	for i := cubeWide(y, x); i < len(x); i++ {
		w := float64(x[i])
		y[i] = float32(w * w * w)
	}
}

// Clip computes y = min(max(x, lo), hi); NaN for NaN.
func Clip(y, x []float32, lo, hi float32) {
	y = y[:len(x)]
	for i := clipWide(y, x, lo, hi); i < len(x); i++ {
		y[i] = min(max(x[i], lo), hi)
	}
}
