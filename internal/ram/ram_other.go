//go:build !linux && !darwin

package ram

func total() int64 { return 0 }
