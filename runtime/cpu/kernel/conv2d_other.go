//go:build !amd64 || purego

package kernel

func panelWide(_, _ []float32, _ Offsets, _ *[PanelWidth]int32, _ bool) bool { return false }

func runPanelWide(_ []float32, _ int, _ []float32, _ Offsets, _ []Run) int { return 0 }

func panelProductWide([]float32, int, []float32, int, int, int, []float32, int) {}

func panelsProductWide([]float32, int, []float32, int, int, []float32, int) bool { return false }

func shiftedProductWide([]float32, int, []float32, int, bool, []float32, Offsets, int) bool {
	return false
}

func tapsWide(_, _ []float32, _ Offsets, _ []float32, _ float32) int { return 0 }

func partPairsWide(_, _, _ []float32) int { return 0 }

func weavePairsWide(_, _, _ []float32) int { return 0 }

func depthwiseWide(_, _ []float32, _, _ int, _ Offsets, _, _ []float32) int { return 0 }
