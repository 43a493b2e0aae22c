//go:build !amd64 || purego

package kernel

func quadsWide() bool { return false }

func panelBytesWide([]byte, []byte, byte, Offsets, int) bool { return false }

func panelProductBytesWide([]int32, int, []int8, int, int, int, int, []byte) bool { return false }
