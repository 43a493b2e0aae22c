//go:build !amd64 || purego

package kernel

func expm1Wide(_, _ []float32) int { return 0 }

func softplusWide(_, _ []float32) int { return 0 }

func mishWide(_, _ []float32) int { return 0 }

func floorWide(_, _ []float32) int { return 0 }

func ceilWide(_, _ []float32) int { return 0 }

func roundWide(_, _ []float32) int { return 0 }

func float16Wide(_, _ []float32) int { return 0 }

func bfloat16Wide(_, _ []float32) int { return 0 }

func widenF16Wide(_ []float32, _ []uint16) int { return 0 }

func narrowF16Wide(_ []uint16, _ []float32) int { return 0 }

func thresholdedReluWide(_, _ []float32, _ float32) int { return 0 }

func eluWide(_, _ []float32, _, _ float32) int { return 0 }

func shrinkWide(_, _ []float32, _, _ float32) int { return 0 }

func negWide(_, _ []float32) int { return 0 }

func absWide(_, _ []float32) int { return 0 }
