//go:build !amd64 || purego

package kernel

func widenBytesWide([]int16, []byte, byte, int) int { return 0 }

func panelInt16Wide([]int16, []byte, byte, int, Offsets, int) bool { return false }

func panelProductInt16Wide([]int32, int, []int16, int, int, int, []int16, int) bool { return false }

func quantizeBytesWide([]byte, []float32, float32, float32, float32, int, byte) int { return 0 }

func dequantizeBytesWide([]float32, []byte, byte, int, float32) int { return 0 }

func addIntsWide([]int32, []int32, int32) int { return 0 }

func intsOfFloatsWide([]int32, []float32) int { return 0 }

func floatsOfIntsWide([]float32, []int32) int { return 0 }

func scaleIntsWide([]float32, []int32, float64, float64) int { return 0 }

func extremesWide([]float32) (lo, hi float32, n int) { return 0, 0, 0 }
