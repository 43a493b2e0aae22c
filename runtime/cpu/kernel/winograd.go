package kernel

// Winograd's method computes tiles of 4 × 4 outputs of a convolution with filters of 3 × 3 weights from 6 × 6
// inputs, with 36 products instead of 144. Transforms along columns and along rows turn inputs and filters into
// factors, and products into outputs. They are the transforms of Toom and Cook for the points 0, ±√½, ±√2 and
// ∞, which have smaller rounding errors than 0, ±1, ±2 and ∞.

// Sizes of a tile.
const (
	WinogradOut      = 4
	WinogradIn       = WinogradOut + 2
	WinogradProducts = WinogradIn * WinogradIn

	winogradVector = 8
	root           = 1.41421356237309504880168872420969807856967187537694
)

// WinogradWidth returns the numbers that the transforms write of a row of n: beyond the first n they are of no use.
func WinogradWidth(n int) int { return (n + winogradVector - 1) &^ (winogradVector - 1) }

// WinogradFilter transforms nine weights, row by row, to the factors of a filter.
func WinogradFilter(dst *[WinogradProducts]float32, w []float32) {
	w = w[:9]
	a0, a1, a2, a3, a4, a5 := winogradPoints(float64(w[0]), float64(w[3]), float64(w[6]))
	b0, b1, b2, b3, b4, b5 := winogradPoints(float64(w[1]), float64(w[4]), float64(w[7]))
	c0, c1, c2, c3, c4, c5 := winogradPoints(float64(w[2]), float64(w[5]), float64(w[8]))
	winogradRow(dst[:6], a0, b0, c0)
	winogradRow(dst[6:12], a1, b1, c1)
	winogradRow(dst[12:18], a2, b2, c2)
	winogradRow(dst[18:24], a3, b3, c3)
	winogradRow(dst[24:30], a4, b4, c4)
	winogradRow(dst[30:], a5, b5, c5)
}

func winogradRow(dst []float32, a, b, c float64) {
	p0, p1, p2, p3, p4, p5 := winogradPoints(a, b, c)
	_ = dst[5]
	dst[0], dst[1], dst[2], dst[3], dst[4], dst[5] = float32(p0), float32(p1), float32(p2), float32(p3), float32(p4), float32(p5)
}

// winogradPoints returns the values of the polynomial a + bx + cx² at the points 0, ∓√½, ±√2 and ∞, times factors.
func winogradPoints(a, b, c float64) (p0, p1, p2, p3, p4, p5 float64) {
	a1, b1, c1 := a*(-2./3), b*(root/3), c*(-1./3)
	a2, b2, c2 := a*(1./6), b*(root/6), c*(1./3)
	return a, a1 - b1 + c1, a1 + b1 + c1, a2 + b2 + c2, a2 - b2 + c2, c
}

// WinogradColumns transforms the columns of six rows of WinogradWidth(n) numbers to factors. Rows of dst and src
// have strides ldd and lds.
func WinogradColumns(dst []float32, ldd int, src []float32, lds, n int) {
	if n = WinogradWidth(n); n == 0 || winogradColumnsWide(dst, ldd, src, lds, n) {
		return
	}
	for i := range n {
		f := winogradFactors(src[i], src[lds+i], src[2*lds+i], src[3*lds+i], src[4*lds+i], src[5*lds+i])
		for r, v := range f {
			dst[r*ldd+i] = v
		}
	}
}

// WinogradTiles transforms the rows of n tiles to factors. There are rows rows, with stride lds: the six numbers
// from src[r·lds+4j] on become dst[(6r+s)·ldd+j], s < 6. It processes WinogradWidth(n) tiles.
func WinogradTiles(dst []float32, ldd int, src []float32, lds, n, rows int) {
	if n = WinogradWidth(n); n == 0 || rows == 0 || winogradTilesWide(dst, ldd, src, lds, n, rows) {
		return
	}
	for r := range rows {
		for j := range n {
			x := src[r*lds+WinogradOut*j:][:WinogradIn]
			for s, v := range winogradFactors(x[0], x[1], x[2], x[3], x[4], x[5]) {
				dst[(WinogradIn*r+s)*ldd+j] = v
			}
		}
	}
}

// WinogradColumnSums transforms the columns of six rows of WinogradWidth(n) products to four rows. Rows of dst and
// src have strides ldd and lds.
func WinogradColumnSums(dst []float32, ldd int, src []float32, lds, n int) {
	if n = WinogradWidth(n); n == 0 || winogradColumnSumsWide(dst, ldd, src, lds, n) {
		return
	}
	for i := range n {
		f := winogradSums(src[i], src[lds+i], src[2*lds+i], src[3*lds+i], src[4*lds+i], src[5*lds+i])
		for r, v := range f {
			dst[r*ldd+i] = v
		}
	}
}

// WinogradTileSums transforms the rows of n tiles of products to outputs. There are rows rows, with stride ldd:
// src[(6r+s)·lds+j], s < 6, become the four numbers from dst[r·ldd+4j] on, to which it adds bias. It processes
// WinogradWidth(n) tiles.
func WinogradTileSums(dst []float32, ldd int, src []float32, lds, n, rows int, bias float32) {
	if n = WinogradWidth(n); n == 0 || rows == 0 || winogradTileSumsWide(dst, ldd, src, lds, n, rows, bias) {
		return
	}
	for r := range rows {
		x := src[WinogradIn*r*lds:]
		for j := range n {
			y := winogradSums(x[j], x[lds+j], x[2*lds+j], x[3*lds+j], x[4*lds+j], x[5*lds+j])
			for s, v := range y {
				dst[r*ldd+WinogradOut*j+s] = v + bias
			}
		}
	}
}

func winogradFactors(d0, d1, d2, d3, d4, d5 float32) [WinogradIn]float32 {
	e, o := d4-2*d2, root/2*(d3-2*d1)
	f, p := d4-0.5*d2, root*(d3-0.5*d1)
	return [...]float32{d0 - 2.5*d2 + d4, e + o, e - o, f + p, f - p, d1 - 2.5*d3 + d5}
}

func winogradSums(m0, m1, m2, m3, m4, m5 float32) [WinogradOut]float32 {
	s, d, t, e := m1+m2, m1-m2, m3+m4, m3-m4
	return [...]float32{m0 + s + t, root/2*d + root*e, 0.5*s + 2*t, root/4*d + 2*root*e + m5}
}

// Finite reports whether no number of x is infinite or NaN.
func Finite(x []float32) bool {
	n, found := infiniteWide(x)
	for _, v := range x[n:] {
		found = found || v-v != 0
	}
	return !found
}

// CopyRows copies rows of n numbers between rows with strides ldd and lds.
func CopyRows(dst []float32, ldd int, src []float32, lds, n, rows int) {
	width := 8
	if avx512() {
		width = 16
	}
	for i := 0; i < n && rows > 0; i += width {
		besideRows(dst[i:], ldd, src[i:], lds, min(width, n-i), rows)
	}
}
