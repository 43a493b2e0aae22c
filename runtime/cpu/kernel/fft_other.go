//go:build !amd64 || purego

package kernel

func fftPassWide(*fftPass, parts, parts, int) bool { return false }

func splitWide(_, _ parts, _ int) int { return 0 }

func splitLanesWide(_, _ parts, _ int) int { return 0 }

func joinWide([]float32, parts, int, float32) int { return 0 }

func mirrorWide([]float32, parts) int { return 0 }

func partWide(parts, []float32, int) int { return 0 }

func lanesInWide(parts, []float32, int, int) int { return 0 }

func lanesOutWide(parts, []float32, int, int) int { return 0 }

func mulWideParts(_, _, _ parts, _ int) int { return 0 }

func mulAddWideParts(_, _, _ parts, _ int, _ float32) int { return 0 }
