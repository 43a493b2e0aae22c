//go:build !amd64 || purego

package kernel

func quadsWide() bool { return false }

func panelBytesWide([]byte, []byte, byte, Offsets, int) bool { return false }

func panelProductBytesWide([]int32, int, []int8, int, int, int, int, []byte) bool { return false }

func scaleBytesWide([]byte, []int32, float64, float64, float32, float32, int, byte) int { return 0 }

func requantizeWide([]byte, []int32, []int32, int32, []float32, float32, float32, float32, int, byte) int {
	return 0
}

func pairBytesWide(bool, []byte, []byte, []byte, *BytePair, byteRange, int) int { return 0 }
