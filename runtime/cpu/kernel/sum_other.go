//go:build !amd64 || purego

package kernel

func addRowsWide([]float64, []float32, int) int { return 0 }
