//go:build amd64 && !purego

package kernel

func (d *Depth) blocks() int { return (d.Ow + depthLanes - 1) / depthLanes }

func depthWide(d *Depth, y, x, w []float32, bias float32) {
	if d.pairs != nil {
		if d.Size == 3 {
			depthPairs3AVX512(&y[0], &x[0], d.H, d.W, d.Top, d.Left, &d.pairs[0], &w[0], bias)
		} else {
			depthPairs5AVX512(&y[0], &x[0], d.H, d.W, d.Top, d.Left, &d.pairs[0], &w[0], bias)
		}
		return
	}
	switch k, m := &w[0], &d.masks[0]; 10*d.Size + d.Stride {
	case 21:
		depth2x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m, k, bias)
	case 22:
		depth2x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m, k, bias)
	case 31:
		depth3x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m, k, bias)
	case 32:
		depth3x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m, k, bias)
	case 51:
		depth5x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m, k, bias)
	case 52:
		depth5x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m, k, bias)
	default:
		depth7x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m, k, bias)
	}
}

func largestWindows(d *Depth, y, x []float32) {
	if d.whole != nil && largestFinite(d, y, x) {
		return
	}
	switch m := &d.masks[0]; 10*d.Size + d.Stride {
	case 21:
		largest2x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 22:
		largest2x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 31:
		largest3x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 32:
		largest3x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 51:
		largest5x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 52:
		largest5x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	default:
		largest7x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	}
}

// largestFinite is largestWindows if some of each window is in x. It returns false, and y is invalid, if x has NaN
// or infinite numbers.
func largestFinite(d *Depth, y, x []float32) bool {
	switch m := &d.whole[0]; 10*d.Size + d.Stride {
	case 21:
		return largestFinite2x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 22:
		return largestFinite2x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 31:
		return largestFinite3x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 32:
		return largestFinite3x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 51:
		return largestFinite5x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	case 52:
		return largestFinite5x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	default:
		return largestFinite7x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, d.blocks(), m)
	}
}
