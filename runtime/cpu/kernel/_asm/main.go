// Command asm writes the assembly of package kernel. Run it by go generate in the folder above.
package main

import . "github.com/mmcloughlin/avo/build"

//go:generate go run . -out ../kernel_amd64.s -stubs ../kernel_amd64.go -pkg kernel

func main() {
	ConstraintExpr("amd64,!purego")
	for rows := range 6 {
		gemmAVX2(rows + 1)
	}
	Generate()
}
