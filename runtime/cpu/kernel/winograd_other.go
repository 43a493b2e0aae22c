//go:build !amd64 || purego

package kernel

func winogradColumnsWide(_ []float32, _ int, _ []float32, _, _ int) bool { return false }

func winogradTilesWide(_ []float32, _ int, _ []float32, _, _, _ int) bool { return false }

func winogradColumnSumsWide(_ []float32, _ int, _ []float32, _, _ int) bool { return false }

func winogradTileSumsWide(_ []float32, _ int, _ []float32, _, _, _ int, _ float32) bool { return false }

func finiteWide(_ []float32) (int, bool) { return 0, true }
