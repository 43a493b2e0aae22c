//go:build amd64 && !purego

package kernel

// fftPass512 runs a pass over s ≥ 16 interleaved transforms.
func fftPass512(p *fftPass, dst, src parts, s int) {
	var f func(dre, dim, sre, sim *float32, m, s int, w *float32)
	switch p.radix {
	case 2:
		f = fftPass2AVX512
	case 3:
		f = fftPass3AVX512
	case 4:
		f = fftPass4AVX512
	case 5:
		f = fftPass5AVX512
	case 7:
		f = fftPass7AVX512
	case 8:
		f = fftPass8AVX512
	case 11:
		f = fftPass11AVX512
	default:
		f = fftPass13AVX512
	}
	f(&dst.re[0], &dst.im[0], &src.re[0], &src.im[0], p.m, s, &p.w[0])
}
