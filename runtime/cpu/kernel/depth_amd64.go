//go:build amd64 && !purego

package kernel

func depthWide(d *Depth, y, x, w []float32, bias float32) {
	blocks := (d.Ow + depthLanes - 1) / depthLanes
	switch {
	case d.Size == 3 && d.Stride == 1:
		depth3x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, blocks, &d.masks[0], &w[0], bias)
	case d.Size == 3:
		depth3x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, blocks, &d.masks[0], &w[0], bias)
	case d.Size == 5 && d.Stride == 1:
		depth5x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, blocks, &d.masks[0], &w[0], bias)
	case d.Size == 5:
		depth5x2AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, blocks, &d.masks[0], &w[0], bias)
	default:
		depth7x1AVX512(&y[0], d.Oh, d.Ow, &x[0], d.H, d.W, d.Top, d.Left, blocks, &d.masks[0], &w[0], bias)
	}
}
