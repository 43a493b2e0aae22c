//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

func machineVariants() (have []string) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA {
		return nil
	}
	if x.HasBMI2 && x.HasAVX512F && x.HasAVX512VL && x.HasAVX512DQ && x.HasAVX512BW {
		have = append(have, AVX512)
	}
	return append(have, AVX2)
}
