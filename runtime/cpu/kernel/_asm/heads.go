package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// headsAVX2 generates a block-diagonal product of small square blocks, k = 2 or 4: eight outputs hold whole blocks, and an
// input reaches all outputs of its block by a permutation inside a half of a vector.
func headsAVX2(k int, add bool) {
	name := fmt.Sprintf("heads%dAVX2", k)
	if add {
		name = fmt.Sprintf("heads%dAddAVX2", k)
	}
	TEXT(name, NOSPLIT, "func(rows int, y *float32, ldy int, x *float32, ldx int, w *float32, groups int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes rows ≥ 1 rows of a product with blocks of %d by %d, %d blocks to each of groups ≥ 1 groups; w holds, for each group, %d times eight numbers.", name, k, k, 8/k, k))
	rows, y, ldy := Load(Param("rows"), GP64()), Load(Param("y"), GP64()), Load(Param("ldy"), GP64())
	x, ldx := Load(Param("x"), GP64()), Load(Param("ldx"), GP64())
	w, groups := Load(Param("w"), GP64()), Load(Param("groups"), GP64())
	SHLQ(Imm(2), ldy)
	SHLQ(Imm(2), ldx)
	Label("row")
	src, dst, wp, g := GP64(), GP64(), GP64(), GP64()
	MOVQ(x, src)
	MOVQ(y, dst)
	MOVQ(w, wp)
	MOVQ(groups, g)
	Label("group")
	in, acc := YMM(), YMM()
	VMOVUPS(Mem{Base: src}, in)
	if add {
		VMOVUPS(Mem{Base: dst}, acc)
	}
	for p := range k {
		pick := uint64(0x55 * p)
		if k == 2 {
			pick = []uint64{0xa0, 0xf5}[p]
		}
		t := YMM()
		VPERMILPS(U8(pick), in, t)
		if p == 0 && !add {
			VMULPS(Mem{Base: wp}, t, acc)
		} else {
			VFMADD231PS(Mem{Base: wp, Disp: 32 * p}, t, acc)
		}
	}
	VMOVUPS(acc, Mem{Base: dst})
	ADDQ(Imm(32), src)
	ADDQ(Imm(32), dst)
	ADDQ(U32(uint32(32*k)), wp)
	DECQ(g)
	JNZ(LabelRef("group"))
	ADDQ(ldx, x)
	ADDQ(ldy, y)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
