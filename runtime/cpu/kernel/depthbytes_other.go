//go:build !amd64 || purego

package kernel

func depthBytesHave() bool { return false }

func (d *DepthBytes) wide(Bytes, Bytes, []int32, *ByteScale, int) bool { return false }

func copyPlanesWide([]byte, int, int, []byte, int, int, int, int, int) bool { return false }
