//go:build !amd64 || purego

package kernel

func machineVariants() []string { return nil }
