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

// descriptions describes the variants of this architecture.
func descriptions() map[string]description {
	x := &cpu.X86
	avx2 := description{vectors: true, panel: widePanel, tails: []int{4, 8, widePanel}, tile: widestRows,
		panels: PanelWidth, beside: 8, selective: 8, scan: 8, int8: int8Form{panel: widePanel, side: 2}}
	avx512 := description{vectors: true, masks: true, panel: widePanel512, tails: []int{4, 8, widePanel, widePanel512},
		tile: widestTile, panels: widestPanel, beside: 16, selective: 16, scan: 16, windows: true, int8: avx2.int8,
		pairs: x.HasAVX512BF16, quads: x.HasAVX512VNNI, depthBytes: x.HasAVX512VNNI && x.HasAVX512VBMI}
	if x.HasAVXVNNI { // VPDPBUSD
		avx2.int8 = int8Form{panel: widePanel, side: 4, bytes: true}
		avx512.int8 = avx2.int8
	}
	if x.HasAVX512VNNI {
		avx512.int8 = int8Form{panel: widePanel512, side: 4, bytes: true}
	}
	return map[string]description{AVX2: avx2, AVX512: avx512}
}

// wide reports whether vector kernels are used, and avx512 whether AVX-512 kernels are used where they exist.
func wide() bool { return machine.vectors }

func avx512() bool { return variant == AVX512 }
