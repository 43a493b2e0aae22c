//go:build !amd64 || purego

package kernel

func cubeWide(_, _ []float32) int { return 0 }

func sqrtWide(_, _ []float32) int { return 0 }

func clipWide(_, _ []float32, _, _ float32) int { return 0 }

func hardSigmoidWide(_, _ []float32, _, _ float32) int { return 0 }

func hardSwishWide(_, _ []float32, _, _ float32) int { return 0 }

func scaleShiftWide(_, _ []float32, _, _ float32) int { return 0 }

func addSWide(_, _ []float32, _ float32) int { return 0 }

func subSWide(_, _ []float32, _ float32) int { return 0 }

func mulSWide(_, _ []float32, _ float32) int { return 0 }

func divSWide(_, _ []float32, _ float32) int { return 0 }

func subFromSWide(_, _ []float32, _ float32) int { return 0 }

func divIntoSWide(_, _ []float32, _ float32) int { return 0 }

func divWide(_, _, _ []float32) int { return 0 }

func maxWide(_, _, _ []float32) int { return 0 }

func minWide(_, _, _ []float32) int { return 0 }

func sumWide([]float32) (float32, int) { return 0, 0 }

func greatestWide([]float32) (float32, int) { return 0, 0 }
