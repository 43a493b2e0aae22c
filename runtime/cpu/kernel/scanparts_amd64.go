//go:build amd64 && !purego

package kernel

// The kernels of a scan with real and imaginary parts, by what becomes of the outputs, and by numbers of vectors.
var (
	scanPartsAVX2 = [4][2]func(rows int, x, xi, v, vi *float32, stride int, ar, ai, br, bi, zr, zi *float64){
		{scanPartsDrop4AVX2, scanPartsDrop16AVX2},
		{scanPartsForward4AVX2, scanPartsForward16AVX2},
		{scanPartsBackwardSet4AVX2, scanPartsBackwardSet16AVX2},
		{scanPartsBackwardAdd4AVX2, scanPartsBackwardAdd16AVX2},
	}
	scanPartsAVX512 = [4][3]func(rows int, x, xi, v, vi *float32, stride int, ar, ai, br, bi, zr, zi *float64, last int){
		{scanPartsDrop8AVX512, scanPartsDrop16AVX512, scanPartsDrop32AVX512},
		{scanPartsForward8AVX512, scanPartsForward16AVX512, scanPartsForward32AVX512},
		{scanPartsBackwardSet8AVX512, scanPartsBackwardSet16AVX512, scanPartsBackwardSet32AVX512},
		{scanPartsBackwardAdd8AVX512, scanPartsBackwardAdd16AVX512, scanPartsBackwardAdd32AVX512},
	}
)

// scanPartsWide advances states of a scan over inputs with real and imaginary parts, and writes both parts of states,
// unless outputs are dropped. It returns the first state that is left. Backward scans start at the last row.
func scanPartsWide(d *Diagonal, xr, xi []float32, in *Inputs, rows int, zr, zi []float64, backward bool, mode int) int {
	if !wide() || rows == 0 {
		return 0
	}
	n, kind := d.N(), mode
	stride, first := n, 0
	if backward {
		stride, first = -n, (rows-1)*n
		if mode != scanDrop {
			kind++
		}
	}
	for j := 0; j < n; {
		left, size, step := n-j, 0, 4
		switch {
		case avx512() && left > 24:
			size, step = 2, 32
		case avx512() && left > 8:
			size, step = 1, 16
		case avx512():
			step = 8
		case left >= 16:
			size, step = 1, 16
		case left < 4:
			return j
		}
		states := min(step, left)
		last := (rows-1)*n + j + states - 1
		_, _, _, _ = in.Re[last], in.Im[last], zr[j+states-1], zi[j+states-1]
		var re, im *float32
		if mode != scanDrop {
			_, _ = xr[last], xi[last]
			re, im = &xr[first+j], &xi[first+j]
		}
		v, vi := &in.Re[first+j], &in.Im[first+j]
		ar, ai, br, bi := &d.ARe[j], &d.AIm[j], &d.BRe[j], &d.BIm[j]
		if avx512() {
			scanPartsAVX512[kind][size](rows, re, im, v, vi, stride, ar, ai, br, bi, &zr[j], &zi[j], states-step+8)
		} else {
			scanPartsAVX2[kind][size](rows, re, im, v, vi, stride, ar, ai, br, bi, &zr[j], &zi[j])
		}
		j += step
	}
	return n
}
