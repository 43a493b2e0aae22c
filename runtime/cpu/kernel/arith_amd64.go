//go:build amd64 && !purego

package kernel

// Helpers that take a function, here and in other files, are short enough to be inlined, so that they call it directly.
// Calls through a function value would move the arguments to the heap.

func unary2Wide(y, x []float32, a, b float32, f func(n int, y, x *float32, a, b float32)) int {
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0
	}
	_ = y[n-1]
	f(n, &y[0], &x[0], a, b)
	return n
}

func sqrtWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, sqrtAVX512)
	}
	return unaryWide(y, x, sqrtAVX2)
}

func cubeWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, cubeAVX512)
	}
	return unaryWide(y, x, cubeAVX2)
}

func clipWide(y, x []float32, lo, hi float32) int {
	if avx512() {
		return unary2x512(y, x, lo, hi, clipAVX512)
	}
	return unary2Wide(y, x, lo, hi, clipAVX2)
}

func hardSigmoidWide(y, x []float32, alpha, beta float32) int {
	if avx512() {
		return unary2x512(y, x, alpha, beta, hardSigmoidAVX512)
	}
	return unary2Wide(y, x, alpha, beta, hardSigmoidAVX2)
}

func hardSwishWide(y, x []float32, alpha, beta float32) int {
	if avx512() {
		return unary2x512(y, x, alpha, beta, hardSwishAVX512)
	}
	return unary2Wide(y, x, alpha, beta, hardSwishAVX2)
}

func scaleShiftWide(y, x []float32, scale, shift float32) int {
	if avx512() {
		return unary2x512(y, x, scale, shift, scaleShiftAVX512)
	}
	return unary2Wide(y, x, scale, shift, scaleShiftAVX2)
}

func addSWide(y, a []float32, s float32) int {
	if avx512() {
		return alpha512(y, a, s, addSAVX512)
	}
	return alphaWide(y, a, s, addSAVX2)
}

func subSWide(y, a []float32, s float32) int {
	if avx512() {
		return alpha512(y, a, s, subSAVX512)
	}
	return alphaWide(y, a, s, subSAVX2)
}

func mulSWide(y, a []float32, s float32) int {
	if avx512() {
		return alpha512(y, a, s, mulSAVX512)
	}
	return alphaWide(y, a, s, mulSAVX2)
}

func divSWide(y, a []float32, s float32) int {
	if avx512() {
		return alpha512(y, a, s, divSAVX512)
	}
	return alphaWide(y, a, s, divSAVX2)
}

func subFromSWide(y, a []float32, s float32) int {
	if avx512() {
		return alpha512(y, a, s, subFromSAVX512)
	}
	return alphaWide(y, a, s, subFromSAVX2)
}

func divIntoSWide(y, a []float32, s float32) int {
	if avx512() {
		return alpha512(y, a, s, divIntoSAVX512)
	}
	return alphaWide(y, a, s, divIntoSAVX2)
}

func divWide(y, a, b []float32) int {
	if avx512() {
		return binary512(y, a, b, divAVX512)
	}
	return binaryWide(y, a, b, divAVX2)
}

func maxWide(y, a, b []float32) int {
	if avx512() {
		return binary512(y, a, b, maxAVX512)
	}
	return binaryWide(y, a, b, maxAVX2)
}

func minWide(y, a, b []float32) int {
	if avx512() {
		return binary512(y, a, b, minAVX512)
	}
	return binaryWide(y, a, b, minAVX2)
}

// sumWide returns the sum of the first numbers of x, and how many they are.
func sumWide(x []float32) (float32, int) {
	if avx512() && len(x) > 0 {
		return sumAVX512(len(x), &x[0]), len(x)
	}
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0, 0
	}
	return sumAVX2(n, &x[0]), n
}

func greatestWide(x []float32) (float32, int) {
	if avx512() && len(x) > 0 {
		return greatestAVX512(len(x), &x[0]), len(x)
	}
	n := len(x) &^ 7
	if n == 0 || !wide() {
		return 0, 0
	}
	return greatestAVX2(n, &x[0]), n
}
