//go:build !amd64 || purego

package kernel

func selectiveLanes() int { return 16 }

func (*Selective) wide(_, _ []float32, _ int, _ []float32, _ int, _ []float32, _, _ []float64, _ int, _ []float32, _, _ int,
	_ []float64) bool {
	return false
}

func gatedWide(_, _, _ []float32, _, _, _ int, _ []float64) int { return 0 }

func decaysWide(_, _, _ []float32, _ []float64, _ float64) bool { return false }

func narrowStatesWide([]float32, int, []float64, int, int) bool { return false }

func advanceStatesWide([]float64, int, float64, []float32, int) bool { return false }
