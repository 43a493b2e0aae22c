package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Instructions of three registers that neither avo nor Go's assembler knows are written as bytes. Operands are in Go's
// order: the first is the last source, and the last is read and written.

// vdpbf16ps adds to each of sixteen sums the products of two pairs of bfloat16 numbers, those of the high halves first.
// Each addition rounds to nearest. Denormal numbers count as zero, also in the sum.
func vdpbf16ps(a, b, acc VecVirtual) { encode("VDPBF16PS", "AVX512_BF16", a, b, acc, evex512) }

// vpdpbusd adds to each of eight sums the products of four bytes, signed in w and unsigned in a. Go's assembler has the
// form for AVX-512 alone.
func vpdpbusd(w, a, acc VecVirtual) { encode("VPDPBUSD", "AVX_VNNI", w, a, acc, vex256) }

// evex512 is EVEX.512.F3.0F38.W0 52 /r. Each p is a byte of the prefix; EVEX and VEX invert the bits of registers'
// numbers.
func evex512(rm, vvvv, reg uint8) []uint8 {
	p0 := bit(reg, 3)<<7 | bit(rm, 4)<<6 | bit(rm, 3)<<5 | bit(reg, 4)<<4 | 2
	p1 := ^vvvv&15<<3 | 6
	p2 := 2<<5 | bit(vvvv, 4)<<3
	return []uint8{0x62, p0, p1, p2, 0x52, modRM(rm, reg)}
}

// vex256 is VEX.256.66.0F38.W0 50 /r.
func vex256(rm, vvvv, reg uint8) []uint8 {
	p0 := bit(reg, 3)<<7 | 1<<6 | bit(rm, 3)<<5 | 2
	p1 := ^vvvv&15<<3 | 5
	return []uint8{0xc4, p0, p1, 0x50, modRM(rm, reg)}
}

// bit returns a bit of a register's number, inverted.
func bit(n uint8, i int) uint8 { return ^n >> i & 1 }

func modRM(rm, reg uint8) uint8 { return 0xc0 | reg&7<<3 | rm&7 }

func encode(name, isa string, a, b, acc VecVirtual, f func(rm, vvvv, reg uint8) []uint8) {
	i := &ir.Instruction{Opcode: "BYTE", Inputs: []Op{a, b, acc}, Outputs: []Op{acc}, ISA: []string{isa}}
	i.Operands = []Op{encoded{i: i, name: name, f: f}}
	Instruction(i)
}

// encoded is an instruction as an operand of BYTE. It is printed after its registers have been allocated.
type encoded struct {
	U8   // a constant, for avo
	i    *ir.Instruction
	name string
	f    func(rm, vvvv, reg uint8) []uint8
}

// Asm returns the bytes, with the instruction as a comment.
func (e encoded) Asm() string {
	var numbers []uint8
	var names []string
	for _, op := range e.i.Inputs {
		r := ToPhysical(op.(Register))
		numbers, names = append(numbers, uint8(r.PhysicalIndex())), append(names, r.Asm())
	}
	var bytes []string
	for _, b := range e.f(numbers[0], numbers[1], numbers[2]) {
		bytes = append(bytes, fmt.Sprintf("$0x%02x", b))
	}
	return strings.Join(bytes, "; BYTE ") + " // " + e.name + " " + strings.Join(names, ", ")
}
