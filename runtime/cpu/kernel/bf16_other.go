//go:build !amd64 || purego

package kernel

func bf16Pairs() bool { return false }

func newPairs(int, int) []uint32 { return nil }

func fillPairs([]uint32, []float32, int, int, int, int) {}

func roundPairs(_, _ []float32, _, _ int) {}

func roundBF16Wide(_, _ []float32) int { return 0 }

func gemmPairs([]float32, int, []float32, int, int, *BF16, []float32) {}
