//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

func machineVariants() []string {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		return []string{"avx2"}
	}
	return nil
}
