package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set that functions are generated for.
type isa struct {
	name   string // suffix of the functions' names
	size   int    // bytes of a vector
	vector func() VecVirtual
}

var (
	avx2   = isa{"AVX2", 32, YMM}
	avx512 = isa{"AVX512", 64, ZMM} // F, VL, DQ and BW, besides AVX2 and BMI2
)

// target is the instruction set of the functions that are being generated.
var target = avx2

// do returns a function that generates a group for t.
func (t isa) do(group func()) func() {
	return func() {
		target = t
		group()
	}
}

// masks reports whether vectors are loaded, stored and blended by masks.
func (t isa) masks() bool { return t.size == 64 }

// numbers returns the condition on n for a function's documentation.
func (t isa) numbers() string {
	if t.masks() {
		return "n is positive"
	}
	return "n is a positive multiple of 8"
}

// sweep writes a loop over n numbers. block computes some vectors, from ptrs on. With unroll, AVX2 computes two vectors
// at a time as long as there are two. AVX-512 always does, and masks the last numbers.
func sweep(n GPVirtual, unroll bool, ptrs []Register, block func(vectors int, mask Op)) {
	if !unroll && !target.masks() {
		sweepBy(n, 1, ptrs, block)
		return
	}
	sweepBy(n, 2, ptrs, block)
}

// sweepBy is sweep with the given number of vectors at a time, and then one by one.
func sweepBy(n GPVirtual, vectors int, ptrs []Register, block func(vectors int, mask Op)) {
	advance := func(vectors int) {
		for _, p := range ptrs {
			ADDQ(bytes(vectors*target.size), p)
		}
	}
	lanes := target.size / 4
	if vectors == 1 && !target.masks() {
		Label("next")
		block(1, nil)
		advance(1)
		SUBQ(Imm(uint64(lanes)), n)
		JNZ(LabelRef("next"))
		return
	}
	most, many := Imm(uint64(vectors*lanes)), map[int]string{1: "whole", 2: "two", 4: "four"}[vectors]
	SUBQ(most, n)
	JL(LabelRef("last"))
	Label(many)
	block(vectors, nil)
	advance(vectors)
	SUBQ(most, n)
	JGE(LabelRef(many))
	Label("last")
	ADDQ(most, n)
	JZ(LabelRef("done"))
	if target.masks() {
		Label("one")
		block(1, lowest(n))
		advance(1)
		SUBQ(Imm(uint64(lanes)), n)
		JG(LabelRef("one"))
	} else {
		if vectors > 2 {
			Label("one")
		}
		block(1, nil)
		if vectors > 2 {
			advance(1)
			SUBQ(Imm(uint64(lanes)), n)
			JNZ(LabelRef("one"))
		}
	}
	Label("done")
}

// bytes returns the shortest immediate operand for n.
func bytes(n int) Op {
	if n < 128 {
		return Imm(uint64(n))
	}
	return U32(uint32(n))
}

// lowest returns a mask of the first n of sixteen numbers, n < 256.
func lowest(n GPVirtual) Op {
	ones, k := GP32(), K()
	MOVL(U32(0xffffffff), ones)
	BZHIL(n.As32(), ones, ones)
	KMOVW(ones, k)
	return k
}

// fetch loads the vector at m. Numbers outside of the mask are not read, and are zero.
func fetch(m Mem, mask Op) VecVirtual {
	v := target.vector()
	if mask == nil {
		VMOVUPS(m, v)
	} else {
		VMOVUPS_Z(m, mask, v)
	}
	return v
}

// fetched returns m as an operand, or the loaded vector if there is a mask.
func fetched(m Mem, mask Op) Op {
	if mask == nil {
		return m
	}
	return fetch(m, mask)
}

func put(v VecVirtual, mask Op, m Mem) {
	if mask == nil {
		VMOVUPS(v, m)
	} else {
		VMOVUPS(v, mask, m)
	}
}

// Comparisons of the second operand with the first.
const (
	unordered    = 3
	less         = 17
	notLessEqual = 22
	greater      = 30
)

// compare returns where a comparison holds, for pick.
func compare(how uint64, a, b Op) Op {
	var holds Op = vectorLike(b)
	if target.masks() {
		holds = K()
	}
	VCMPPS(Imm(how), a, b, holds)
	return holds
}

// pick sets out to yes where a comparison holds, and to no elsewhere.
func pick(holds, yes, no, out Op) {
	if target.masks() {
		VBLENDMPS(yes, no, holds, out)
	} else {
		VBLENDVPS(holds, yes, no, out)
	}
}

// vectorLike returns a new vector of the width of v.
func vectorLike(v Op) VecVirtual {
	switch v.(Register).Size() {
	case 16:
		return XMM()
	case 32:
		return YMM()
	}
	return ZMM()
}
