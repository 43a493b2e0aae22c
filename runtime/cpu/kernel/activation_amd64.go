//go:build amd64 && !purego

package kernel

func expm1Wide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, expm1AVX512)
	}
	return unaryWide(y, x, expm1AVX2)
}

func softplusWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, softplusAVX512)
	}
	return unaryWide(y, x, softplusAVX2)
}

func mishWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, mishAVX512)
	}
	return unaryWide(y, x, mishAVX2)
}

func floorWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, floorAVX512)
	}
	return unaryWide(y, x, floorAVX2)
}

func ceilWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, ceilAVX512)
	}
	return unaryWide(y, x, ceilAVX2)
}

func roundWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, roundAVX512)
	}
	return unaryWide(y, x, roundAVX2)
}

func float16Wide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, float16AVX512)
	}
	return unaryWide(y, x, float16AVX2)
}

func bfloat16Wide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, bfloat16AVX512)
	}
	return unaryWide(y, x, bfloat16AVX2)
}

// All processors with AVX2 convert to and from float16.
func widenF16Wide(y []float32, x []uint16) int {
	n := len(x) &^ 7
	if !wide() || n == 0 {
		return 0
	}
	widenF16AVX2(n, &y[0], &x[0])
	return n
}

func narrowF16Wide(y []uint16, x []float32) int {
	n := len(x) &^ 7
	if !wide() || n == 0 {
		return 0
	}
	narrowF16AVX2(n, &y[0], &x[0])
	return n
}

func thresholdedReluWide(y, x []float32, alpha float32) int {
	if avx512() {
		return alpha512(y, x, alpha, thresholdedReluAVX512)
	}
	return alphaWide(y, x, alpha, thresholdedReluAVX2)
}

func eluWide(y, x []float32, below, above float32) int {
	if avx512() {
		return unary2x512(y, x, below, above, eluAVX512)
	}
	return unary2Wide(y, x, below, above, eluAVX2)
}

func shrinkWide(y, x []float32, bias, lambd float32) int {
	if avx512() {
		return unary2x512(y, x, bias, lambd, shrinkAVX512)
	}
	return unary2Wide(y, x, bias, lambd, shrinkAVX2)
}

func negWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, negAVX512)
	}
	return unaryWide(y, x, negAVX2)
}

func absWide(y, x []float32) int {
	if avx512() {
		return unary512(y, x, absAVX512)
	}
	return unaryWide(y, x, absAVX2)
}
