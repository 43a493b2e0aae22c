//go:build !amd64 || purego

package kernel

func depthWide(*Depth, []float32, []float32, []float32, float32) {}

func largestWindows(*Depth, []float32, []float32) {}
