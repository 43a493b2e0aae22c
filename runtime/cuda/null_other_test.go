//go:build !linux

package cuda_test

func threadID() int { return 0 }
