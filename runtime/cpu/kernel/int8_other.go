//go:build !amd64 || purego

package kernel

func int8Panel() (panel, side int) { return 1, 1 }

func int8Bytes() bool { return false }

func gemmInt8Wide([]float32, int, []float32, int, int, *Int8, []float32) {}

func quantizeWide(_, _ []float32, _, _ int) int { return 0 }

func largestWide([]float32) (int, uint32) { return 0, 0 }

func roundInt16Wide([]int16, []float32, float32) int { return 0 }

func roundUint8Wide([]uint8, []float32, float32) int { return 0 }
