//go:build !amd64 || purego

package kernel

func panelRows() int { return panel }

func tailPanel(int) int { return panel }

func gemmWide(y []float32, ldy int, x []float32, ldx int, rows int, w *Packed, bias []float32, add bool, _ int) {
	gemmGeneric(y, ldy, x, ldx, rows, w, bias, add)
}

func smallHeads([]float32, int, []float32, int, int, *Blocks, bool) bool { return false }

func headsAcross([]float32, int, []float32, int, int, *Blocks, int) bool { return false }

func headsDotWide([]float32, int, []float32, int, int, []float32, int, int) bool { return false }

func headsSpreadWide([]float32, int, []float32, int, int, []float32, int, int) bool { return false }

func scanWide(_ *Diagonal, _, _ []float32, _, lo, _ int, _, _ []float64, _ bool, _ int) int {
	return lo
}

func scanPartsWide(*Diagonal, []float32, []float32, *Inputs, int, []float64, []float64, bool, int) int {
	return 0
}

func scanLanes() int { return 0 }

func scanBlock(int, int, *float32, int, *float32, *float64, *float64, *float64, *float64) {}

func siso(_, _ int, _, _ *float32, _ int, _, _, _ *float32, _, _, _, _ *float64, _ *float32, _ bool) {
}

func scaleAddWide(_, _, _ []float32) int { return 0 }

func sigmoidWide(_, _ []float32) int { return 0 }

func geluWide(_, _ []float32) int { return 0 }

func geluTanhWide(_, _ []float32) int { return 0 }

func erfWide(_, _ []float32) int { return 0 }

func expWide(_, _ []float32) int { return 0 }

func reluWide(_, _ []float32) int { return 0 }

func leakyReluWide(_, _ []float32, _ float32) int { return 0 }

func swishWide(_, _ []float32, _ float32) int { return 0 }

func tanhWide(_, _ []float32) int { return 0 }

func addWide(_, _, _ []float32) int { return 0 }

func subWide(_, _, _ []float32) int { return 0 }

func mulWide(_, _, _ []float32) int { return 0 }

func affineWide(_, _, _, _ []float32) int { return 0 }

func transposeWide(_ []float32, _ int, _ []float32, _, _, _ int) (int, int) { return 0, 0 }
