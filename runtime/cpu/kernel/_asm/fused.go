package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Fused kernels are run by functions that jump to each other. Each computes on the vectors in the first registers, and
// jumps to the next function of the program. They share these constants and registers:
const (
	fusedVectors = 4 // vectors of a block
	// Offsets in an instruction of the program (fusedInstruction in Go): the function for whole blocks, that for one
	// masked vector, two addresses, and the distance between rows at the first of these.
	fusedCode, fusedTail, fusedX, fusedZ, fusedRow, fusedSize = 0, 8, 16, 24, 32, 40
)

var (
	fusedAt    = reg.RSI // the instruction under way
	fusedStart = reg.RCX // the first one
	fusedOff   = reg.RDI // finished bytes of the row
	fusedWidth = reg.RBX // bytes of a row
	fusedRows  = reg.R8  // rows left, with this one
	fusedLast  = reg.R9  // the last instruction
)

// fusedForm is a form of a function: the number of vectors, with or without a mask.
type fusedForm struct {
	vectors int
	mask    reg.Register
}

func (c fusedForm) code() int {
	if c.mask == nil {
		return fusedCode
	}
	return fusedTail
}

func (c fusedForm) name(name string) string {
	if c.mask != nil {
		name += "Tail"
	}
	return "fused" + name + target.name
}

func fusedForms() [2]fusedForm {
	var mask reg.Register = reg.Y15
	if target.masks() {
		mask = reg.K1
	}
	return [2]fusedForm{{fusedVectors, nil}, {1, mask}}
}

// register returns vector i of the block.
func (c fusedForm) register(i int) reg.Register {
	if target.masks() {
		return []reg.Register{reg.Z0, reg.Z1, reg.Z2, reg.Z3}[i]
	}
	return []reg.Register{reg.Y0, reg.Y1, reg.Y2, reg.Y3}[i]
}

// function begins a function of a fused kernel.
func (c fusedForm) function(name, doc string) {
	TEXT(c.name(name), NOSPLIT|NOFRAME, "func()")
	describe(c.name(name) + " " + doc)
}

// next jumps to the following instruction.
func (c fusedForm) next() {
	ADDQ(Imm(fusedSize), fusedAt)
	c.jump()
}

// jump jumps to the instruction at fusedAt. It keeps all shared registers.
func (c fusedForm) jump() {
	keep := []Op{fusedAt, fusedStart, fusedOff, fusedWidth, fusedRows, fusedLast}
	for i := range c.vectors {
		keep = append(keep, c.register(i))
	}
	if c.mask != nil {
		keep = append(keep, c.mask)
	}
	to := Mem{Base: fusedAt, Disp: c.code()}
	Instruction(&ir.Instruction{Opcode: "JMP", Operands: []Op{to}, Inputs: keep, IsTerminal: true})
}

// address returns the position of an operand's numbers for the block.
func (c fusedForm) address(field int) reg.Register {
	p := GP64()
	MOVQ(Mem{Base: fusedAt, Disp: field}, p)
	ADDQ(fusedOff, p)
	return p
}

// read returns vector i at p as an operand.
func (c fusedForm) read(p reg.Register, i int) Op {
	m := Mem{Base: p, Disp: i * target.size}
	if c.mask == nil {
		return m
	}
	v := target.vector()
	c.load(m, v)
	return v
}

func (c fusedForm) load(m Mem, v Op) {
	switch {
	case c.mask == nil:
		VMOVUPS(m, v)
	case target.masks():
		VMOVUPS_Z(m, c.mask, v)
	default:
		VMASKMOVPS(m, c.mask, v)
	}
}

func (c fusedForm) store(v Op, m Mem) {
	switch {
	case c.mask == nil:
		VMOVUPS(v, m)
	case target.masks():
		VMOVUPS(v, c.mask, m)
	default:
		VMASKMOVPS(v, c.mask, m)
	}
}

// fusedStream generates operations with one further operand.
func fusedStream(name, doc string, f func(x, acc Op)) {
	for _, c := range fusedForms() {
		c.function(name, doc)
		p := c.address(fusedX)
		for i := range c.vectors {
			f(c.read(p, i), c.register(i))
		}
		c.next()
	}
	fusedNames = append(fusedNames, name)
}

// fusedStreams generates operations with two further operands.
func fusedStreams(name, doc string, f func(x, z, acc Op)) {
	for _, c := range fusedForms() {
		c.function(name, doc)
		p, q := c.address(fusedX), c.address(fusedZ)
		for i := range c.vectors {
			x := target.vector()
			c.load(Mem{Base: p, Disp: i * target.size}, x)
			f(x, c.read(q, i), c.register(i))
		}
		c.next()
	}
	fusedNames = append(fusedNames, name)
}

// fusedFunction generates a function of one operand, with parameters.
func fusedFunction(name, doc string, params int, f func(x vecs, p []reg.VecVirtual) vecs) {
	for _, c := range fusedForms() {
		c.function(name, doc)
		var ps []reg.VecVirtual
		if params > 0 {
			at := GP64()
			MOVQ(Mem{Base: fusedAt, Disp: fusedZ}, at)
			for i := range params {
				v := target.vector()
				VBROADCASTSS(Mem{Base: at, Disp: 4 * i}, v)
				ps = append(ps, v)
			}
		}
		x := fresh(c.vectors)
		for i := range x {
			VMOVAPS(c.register(i), x[i])
		}
		for i, y := range f(x, ps) {
			VMOVAPS(y, c.register(i))
		}
		c.next()
	}
	fusedNames = append(fusedNames, name)
}

// fusedElu generates elu. Its parameters, below and above, are loaded for each pair of vectors, to save registers.
func fusedElu() {
	for _, c := range fusedForms() {
		c.function("Elu", "computes elu; the parameters are below and above.")
		at := GP64()
		MOVQ(Mem{Base: fusedAt, Disp: fusedZ}, at)
		param := func(i int) func() reg.VecVirtual {
			return func() reg.VecVirtual {
				v := target.vector()
				VBROADCASTSS(Mem{Base: at, Disp: 4 * i}, v)
				return v
			}
		}
		x := fresh(c.vectors)
		for i := range x {
			VMOVAPS(c.register(i), x[i])
		}
		for i, y := range elu(x, param(0), param(1)) {
			VMOVAPS(y, c.register(i))
		}
		c.next()
	}
	fusedNames = append(fusedNames, "Elu")
}

// fusedNames are the operations in the order of the constants in Go.
var fusedNames []string

// proceed continues with the rest of the row or with the next row, or returns.
func proceed() {
	full, tail := fusedForms()[0], fusedForms()[1]
	left := GP64()
	Label("block")
	MOVQ(fusedWidth, left)
	SUBQ(fusedOff, left)
	MOVQ(fusedStart, fusedAt)
	CMPQ(left, U32(uint32(full.vectors*target.size)))
	JL(LabelRef("rest"))
	full.jump()
	Label("rest")
	SHRQ(Imm(2), left)
	JZ(LabelRef("row"))
	if target.masks() {
		ones := GP32()
		MOVL(U32(0xffffffff), ones)
		BZHIL(left.As32(), ones, ones)
		KMOVW(ones, tail.mask)
	} else {
		most := GP64()
		MOVQ(U64(8), most)
		CMPQ(left, most)
		CMOVQGT(most, left)
		LEAQ(fusedMask(), most)
		NEGQ(left)
		VMOVUPS(Mem{Base: most, Index: left, Scale: 4, Disp: 32}, tail.mask)
	}
	tail.jump()
	Label("row")
	DECQ(fusedRows)
	JZ(LabelRef("done"))
	at, step := GP64(), GP64()
	MOVQ(fusedStart, at)
	Label("step")
	MOVQ(Mem{Base: at, Disp: fusedRow}, step)
	ADDQ(step, Mem{Base: at, Disp: fusedX})
	ADDQ(Imm(fusedSize), at)
	CMPQ(at, fusedLast)
	JLE(LabelRef("step"))
	XORQ(fusedOff, fusedOff)
	JMP(LabelRef("block"))
	Label("done")
	VZEROUPPER()
	RET()
}

// fusedMask returns eight lanes of ones, and eight of zeros.
func fusedMask() Mem {
	if m, ok := wholes[0xffffffff]; ok {
		return m
	}
	m := GLOBL("fusedMask", attr.RODATA|attr.NOPTR)
	for i := range 16 {
		DATA(4*i, U32(uint32(int64(i-8)>>8&0xffffffff)))
	}
	wholes[0xffffffff] = m
	return m
}

// fused generates the group.
func fused() {
	for _, c := range fusedForms() {
		c.function("Store", "writes the numbers, and begins the next block of the row, or the next row, or ends.")
		p := c.address(fusedX)
		for i := range c.vectors {
			c.store(c.register(i), Mem{Base: p, Disp: i * target.size})
		}
		ADDQ(U32(uint32(c.vectors*target.size)), fusedOff)
		if c.mask != nil { // fusedOff may be beyond the end of the row
			CMPQ(fusedOff, fusedWidth)
			CMOVQGT(fusedWidth, fusedOff)
		}
		proceed()
	}
	fusedNames = append(fusedNames, "Store")
	fusedStream("Load", "begins with the numbers of an operand.", func(x, acc Op) {
		VMOVUPS(x, acc)
	})
	fusedStream("Add", "adds an operand.", func(x, acc Op) { VADDPS(x, acc, acc) })
	fusedStream("Sub", "subtracts an operand.", func(x, acc Op) { VSUBPS(x, acc, acc) })
	fusedStream("SubFrom", "subtracts the numbers from an operand.", func(x, acc Op) {
		v := moved(x)
		VSUBPS(acc, v, acc)
	})
	fusedStream("Mul", "multiplies by an operand.", func(x, acc Op) { VMULPS(x, acc, acc) })
	fusedStream("Div", "divides by an operand.", func(x, acc Op) { VDIVPS(x, acc, acc) })
	fusedStream("DivInto", "divides an operand by the numbers.", func(x, acc Op) {
		v := moved(x)
		VDIVPS(acc, v, acc)
	})
	for _, op := range []struct {
		name, doc string
		f         func(...Op)
	}{{"Max", "takes the greater of the numbers and an operand's, NaN where " +
		"either is.", VMAXPS}, {"Min", "takes the lesser, NaN where either is.", VMINPS}} {
		fusedStream(op.name, op.doc, func(x, acc Op) {
			nan, v := compare(unordered, acc, acc), target.vector()
			op.f(moved(x), acc, v) // x if either is NaN
			pick(nan, acc, v, acc)
		})
	}
	fusedStreams("Affine", "multiplies by an operand and adds the other, "+
		"rounded once.", func(x, z, acc Op) { VFMADD213PS(z, x, acc) })
	fusedStreams("AddProduct", "adds the product of two operands, rounded once.", func(x, z, acc Op) {
		VFMADD231PS(z, x, acc)
	})
	plain := func(f func(x vecs) vecs) func(x vecs, _ []reg.VecVirtual) vecs {
		return func(x vecs, _ []reg.VecVirtual) vecs { return f(x) }
	}
	fusedFunction("Sigmoid", "computes sigmoid.", 0, plain(sigmoid))
	fusedFunction("Gelu", "computes gelu.", 0, plain(gelu))
	fusedFunction("GeluTanh", "computes geluTanh.", 0, plain(geluTanh))
	fusedFunction("Tanh", "computes tanh.", 0, plain(tanh))
	fusedFunction("Exp", "computes exp.", 0, plain(exponential))
	fusedFunction("Erf", "computes erf.", 0, plain(erf))
	fusedFunction("Relu", "computes relu.", 0, plain(relu))
	fusedFunction("LeakyRelu", "computes leakyRelu; the parameter is alpha.", 1, func(x vecs, p []reg.VecVirtual) vecs {
		return leakyRelu(x, p[0])
	})
	fusedFunction("Swish", "computes swish; the parameter is alpha.", 1, func(x vecs, p []reg.VecVirtual) vecs {
		return swish(x, p[0])
	})
	fusedFunction("Clip", "computes clip; the parameters are lo and hi.", 2, func(x vecs, p []reg.VecVirtual) vecs {
		return x.bounded(p[0], p[1])
	})
	fusedFunction("HardSigmoid", "computes hardSigmoid; the parameters are alpha "+
		"and beta.", 2, func(x vecs, p []reg.VecVirtual) vecs { return hardSigmoid(x, p[0], p[1]) })
	fusedFunction("HardSwish", "computes hardSwish; the parameters are alpha "+
		"and beta.", 2, func(x vecs, p []reg.VecVirtual) vecs {
		return x.and(hardSigmoid(x, p[0], p[1]), VMULPS)
	})
	fusedFunction("Sqrt", "computes the square root.", 0, func(x vecs, _ []reg.VecVirtual) vecs {
		return x.each(func(x, y reg.VecVirtual) {
			VSQRTPS(x, y)
		})
	})
	fusedFunction("Abs", "computes the magnitude.", 0, plain(magnitude))
	fusedFunction("Neg", "changes the sign.", 0, func(x vecs, _ []reg.VecVirtual) vecs {
		return x.with(signBit, VXORPS)
	})
	fusedFunction("Square", "computes the square.", 0, func(x vecs, _ []reg.VecVirtual) vecs {
		return x.and(x, VMULPS)
	})

	fusedFunction("Softplus", "computes softplus.", 0, plain(softplus))
	fusedFunction("Mish", "computes mish.", 0, plain(mish))
	fusedElu()
	fusedFunction("ThresholdedRelu", "computes thresholdedRelu; the parameter "+
		"is alpha.", 1, func(x vecs, p []reg.VecVirtual) vecs { return thresholdedRelu(x, p[0]) })
	fusedFunction("Shrink", "computes shrink; the parameters are bias "+
		"and lambd.", 2, func(x vecs, p []reg.VecVirtual) vecs {
		return inPairs(x, func(x vecs) vecs { return shrink(x, p[0], p[1]) })
	})
	for _, f := range []struct {
		name string
		how  uint64
	}{{"Floor", 1}, {"Ceil", 2}, {"Round", 0}} {
		fusedFunction(f.name, "rounds to whole numbers.", 0, func(x vecs, _ []reg.VecVirtual) vecs {
			return x.each(func(x, y reg.VecVirtual) { whole(f.how, x, y) })
		})
	}
	fusedFunction("Float16", "rounds to float16.", 0, plain(roundedF16))
	fusedFunction("BFloat16", "rounds to bfloat16.", 0, func(x vecs, _ []reg.VecVirtual) vecs {
		return inPairs(x, roundedBF16)
	})

	TEXT("fused"+target.name, NOSPLIT|NOFRAME, "func(program, last *byte, width, rows int)")
	describe("fused" + target.name + " runs a program, whose last instruction stores, on rows of width bytes. rows " +
		"and width are positive. It changes the program's addresses.")
	Pragma("noescape")
	Load(Param("program"), fusedStart)
	Load(Param("last"), fusedLast)
	Load(Param("width"), fusedWidth)
	Load(Param("rows"), fusedRows)
	XORQ(fusedOff, fusedOff)
	proceed()

	TEXT("fusedCodes"+target.name, NOSPLIT, "func(codes *uintptr)")
	describe("fusedCodes" + target.name + " gives the addresses of the functions above.")
	Pragma("noescape")
	codes, p := Load(Param("codes"), GP64()), GP64()
	for i, name := range fusedNames {
		for k, c := range fusedForms() {
			LEAQ(NewDataAddr(Symbol{Name: "·" + c.name(name)}, 0), p)
			MOVQ(p, Mem{Base: codes, Disp: 16*i + 8*k})
		}
	}
	RET()
}

// moved returns x in a register.
func moved(x Op) reg.VecVirtual {
	if v, ok := x.(reg.VecVirtual); ok {
		return v
	}
	v := target.vector()
	VMOVUPS(x, v)
	return v
}
