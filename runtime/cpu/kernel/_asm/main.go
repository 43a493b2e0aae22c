// Command asm writes the assembly of package kernel; go generate in the folder above runs it.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	ConstraintExpr("amd64,!purego")
	for rows := range 6 {
		gemmAVX2(rows + 1)
	}
	for _, groups := range []int{4, 1} {
		scanAVX2("scanForward", groups, false, set)
		scanAVX2("scanBackwardDrop", groups, true, drop)
		scanAVX2("scanBackwardSet", groups, true, set)
		scanAVX2("scanBackwardAdd", groups, true, add)
	}
	for _, k := range []int{2, 4} {
		headsAVX2(k, false)
		headsAVX2(k, true)
	}
	unary("sigmoidAVX2", "is y = 1/(1+e⁻ˣ).", sigmoid)
	unary("geluAVX2", "is x times the normal distribution function of x.", gelu)
	unary("tanhAVX2", "is the hyperbolic tangent.", tanh)
	binary("addAVX2", "is y = a + b.", VADDPS)
	binary("subAVX2", "is y = a - b.", VSUBPS)
	binary("mulAVX2", "is y = a·b.", VMULPS)
	affineAVX2()
	Generate()
}
