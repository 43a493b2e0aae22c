// Command asm writes one group of the assembly of package kernel; go generate in the folder above runs it for each:
// go run . GROUP -out FILE.s -stubs FILE.go -pkg kernel.
//
// Shared by groups: isa.go, what differs between AVX2 and AVX-512, and loops over numbers; product.go, tiles of matrix products;
// encode.go, instructions that the assembler lacks. Each other file writes the functions of one group, or of a group for either
// instruction set.
package main

import (
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

// groups are the files of assembly. Each is made on its own, so that a change shows in its own file.
var groups = map[string]func(){
	"gemm": gemms,
	"scan": func() { scans(4, 1) },
	"heads": func() {
		for _, size := range [][2]int{{2, 2}, {4, 4}, {4, 8}} {
			headsAVX2(size[0], size[1], false)
			headsAVX2(size[0], size[1], true)
		}
		for _, inputs := range []int{4, 6, 8} {
			headsAVX2(8, inputs, false)
		}
		headsDotAVX2(4)
		headsDotAVX2(1)
		headsSpreadAVX2()
	},
	"siso": func() {
		sisoAVX2(false)
		sisoAVX2(true)
		scaleAddAVX2()
	},
	"transpose": transposeAVX2,
	"arith":     arith,
	"conv": func() {
		panelAVX2()
		quarterPanelAVX2()
		gatherPanelAVX2()
		tapsAVX2()
		depthwiseAVX2()
		partAVX2()
		weaveAVX2()
	},
	"fft":  fft,
	"norm": norm,
	"int8": func() {
		int8AVX2()
		int8Dot()
		largestAVX2()
		for _, bits := range []int{16, 8} {
			quantizeAVX2(bits)
			roundAVX2(bits)
		}
	},
	"bf16":        roundBF16AVX2,
	"elementwise": elementwise,
	"integer": func() {
		pairsAVX2()
		widenBytesAVX2()
		pairPanelAVX2()
		quantizeBytesAVX2()
		dequantizeBytesAVX2()
		floatsOfIntsAVX2()
		scaleIntsAVX2()
		extremesAVX2()
	},
	"fused": fused,
	"sum":   addRowsAVX2,

	"elementwise512": avx512.do(elementwise),
	"arith512":       avx512.do(arith),
	"fused512":       avx512.do(fused),
	"scan512":        avx512.do(func() { scans(4, 2, 1) }),
	"gemm512":        avx512.do(gemms),
	"int8512":        avx512.do(int8Dot),
	"bf16512": avx512.do(func() {
		roundBF16AVX512()
		bf16Products()
	}),
	"fft512": avx512.do(fftPasses),
}

func main() {
	if len(os.Args) < 2 || groups[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "asm: the first argument must name a group of functions")
		os.Exit(2)
	}
	group := groups[os.Args[1]]
	os.Args = append(os.Args[:1], os.Args[2:]...) // the rest are avo's flags
	ConstraintExpr("amd64,!purego")
	group()
	Generate()
}
