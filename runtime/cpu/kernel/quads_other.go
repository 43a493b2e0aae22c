//go:build !amd64 || purego

package kernel

func quadsWide() bool { return false }

func panelBytesWide([]byte, []byte, byte, Offsets, int) bool { return false }

func panelProductBytesWide([]int32, int, []int8, int, int, int, int, []byte) bool { return false }

func panelsBytesWide([]byte, int, []byte, byte, Offsets, int) bool { return false }

func quadSumsWide([]int32, int, []int8, int, int, []byte, int) bool { return false }

func quadBytesWide([]byte, int, []int8, int, int, []byte, int, []int32, []float32, byteRange) bool {
	return false
}

func scaleRowsWide(*RowScale, Bytes, int, []int32, int, int, int) bool { return false }

func scaleFloatRowsWide(*RowScale, Bytes, int, []float32, int, int, int) bool { return false }

func copyRowsWide([]byte, int, int, []byte, int, int, int, int, int, int, byte) bool { return false }

func largestTapsWide([]byte, Bytes, Offsets, int) bool { return false }

func fillBytesWide([]byte, byte) bool { return false }

func byteTableWide(y, x []byte, table *[256]byte) int { return 0 }

func requantizeWide([]byte, []int32, []int32, int32, []float32, float32, float32, float32, int, byte) int {
	return 0
}

func pairBytesWide(bool, []byte, []byte, []byte, *BytePair, byteRange, int) int { return 0 }
