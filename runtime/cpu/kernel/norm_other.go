//go:build !amd64 || purego

package kernel

func sum64Wide([]float32) (float64, int) { return 0, 0 }

func squares64Wide([]float32, float64) (float64, int) { return 0, 0 }

func normWide(_, _, _, _ []float32, _, _ float64) int { return 0 }

func fourSums64Wide([]float32, int, int) (sums [4]float64, n int) { return sums, 0 }

func fourSquares64Wide([]float32, int, int, *[4]float64) (sums [4]float64, n int) { return sums, 0 }

func fourNormWide(_, _ []float32, _, _ int, _, _ []float32, _, _ *[4]float64) int { return 0 }
