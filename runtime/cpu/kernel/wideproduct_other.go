//go:build !amd64 || purego

package kernel

func wideProduct(_ []float64, _ int, _ []float64, _, _, _ int, _ []float64, _ int) int { return 0 }
