//go:build !amd64 || purego

package kernel

func besidePassWide([]float32, int, *besideLevel, []float32, bool) bool { return false }

func besideFlatWide([]float32, int, int, int, bool) bool { return false }

func besideFirstWide([]float32, int, *besideLevel, int, *Features) bool { return false }

func besideLastWide([]float32, int, *besideLevel, int, *Features) {}

func besideProductWide([]float32, int, []int32, []float32, []float32) bool { return false }

func besideRowsWide([]float32, int, []float32, int, int, int) bool { return false }
