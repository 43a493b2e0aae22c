package elementwise

import (
	"math"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

const (
	blockSize    = 256 // numbers of a block
	maxRegisters = 8   // blocks between instructions
	maxOperands  = 16
	maxConstants = 8 // blocks of one number each
)

// program is a compiled expression: calls of functions on blocks. An instruction reads registers, operands, which
// are numbered after registers, and constants, which are numbered after operands. The last instruction computes the
// result.
type program struct {
	code      []instruction
	registers int
	reads     []int       // indices of the inputs that are its operands
	constants [][]float32 // blocks
}

// instruction computes a block. One of the functions is set.
type instruction struct {
	f1   func(y, x []float32)
	f2   func(y, a, b []float32)
	f3   func(y, a, b, c []float32)
	args [3]int
	to   int

	// As a part of a chain:
	step, exchanged kernel.FusedOp     // as in operation
	number          bool               // k holds the second operand, a number; otherwise parameters
	k               []float32          //
	arithmetic      *record.Arithmetic // if both operands are blocks
}

// compile returns the program of an expression; nil if it has an operation without an entry, no inputs, or is too
// large.
func compile(e scalar.Expr) *program {
	if !e.Valid() {
		return nil
	}
	e = scalar.Rewrite(e, defined)
	if !leaves(e) { // whether a single operation can be fused must not depend on the values of its constants
		e = scalar.Simplify(e)
	}
	l := scalar.Linearize(func(scalar.Op) bool { return true }, e)
	last := len(l.Code) - 1
	if l.Slots > maxRegisters {
		return nil
	}
	c := compiler{l: l, p: &program{registers: l.Slots}, at: make([]int, len(l.Code))}
	p := c.p
	for i := range l.Code {
		if in := &l.Code[i]; in.Op == scalar.OpInput {
			c.at[i] = l.Slots + len(p.reads)
			p.reads = append(p.reads, in.Index)
		}
	}
	if len(p.reads) == 0 || len(p.reads) > maxOperands {
		return nil
	}
	for i := range l.Code {
		if l.Code[i].Arity() == 0 {
			continue
		}
		c.at[i] = l.Code[i].Slot
		in, ok := c.instruction(&l.Code[i])
		if !ok {
			return nil
		}
		p.code = append(p.code, in)
	}
	if len(p.code) == 0 { // an operand as it is
		p.registers = 1
		p.code = []instruction{{f1: copied, args: [3]int{p.registers}}}
	}
	if len(p.constants) > maxConstants || last != l.Results[0] {
		return nil
	}
	return p
}

// defined returns e, or its definition if it is a function without an entry for these operands.
func defined(e scalar.Expr) scalar.Expr {
	if !e.Op().IsFunction() {
		return e
	}
	o := operations[e.Op()]
	if o != nil && (o.of1 != nil && parameters(e.Args()[1:]) || o.of2 != nil) && !odd(e) {
		return e
	}
	return scalar.Rewrite(e.Define(), defined)
}

// parameters reports whether all expressions are constants.
func parameters(list []scalar.Expr) bool {
	for _, e := range list {
		if e.Op() != scalar.OpConst {
			return false
		}
	}
	return true
}

// odd reports whether a parameter of e is a constant that kernels do not take: NaN, or an infinity but as a bound.
func odd(e scalar.Expr) bool {
	return slices.ContainsFunc(e.Args()[1:], func(a scalar.Expr) bool {
		if a.Op() != scalar.OpConst {
			return false
		}
		v := a.Value()
		return math.IsNaN(v) || math.IsInf(v, 0) && e.Op() != scalar.OpClip
	})
}

// leaves reports whether all operands of e are inputs and constants.
func leaves(e scalar.Expr) bool {
	for _, a := range e.Args() {
		if a.Op().Arity() > 0 {
			return false
		}
	}
	return true
}

// compiler compiles a linearized expression.
type compiler struct {
	l  *scalar.Program
	p  *program
	at []int // per instruction of l: the number of its value in p
}

// instruction returns the instruction for an operation; false if there is none.
func (c *compiler) instruction(from *scalar.Instr) (in instruction, ok bool) {
	in.to = from.Slot
	args := from.Args[:from.Arity()]
	constant := func(i int) bool { return c.l.Code[args[i]].Op == scalar.OpConst }
	var k []float64 // constants after the first operand
	for i := 1; i < len(args) && constant(i); i++ {
		k = append(k, c.l.Code[args[i]].Value)
	}
	o := operations[from.Op]
	if o == nil {
		return in, false
	}
	if from.Op == scalar.OpPow && len(k) == 1 {
		if f, ok := powers[k[0]]; ok {
			o, k = f, nil
		} else if k[0] == -1 {
			in.step, in.number, in.k = kernel.FusedDivInto, true, []float32{1}
			in.f1, in.args[0] = kernel.Reciprocal, c.at[args[0]]
			return in, !constant(0)
		}
	}
	switch {
	case o.of1 != nil && len(k) == len(args)-1 && !constant(0) || o.of1 != nil && o.of2 == nil:
		if o.parameters != nil {
			k = o.parameters(k)
		}
		in.step, in.k, in.args[0] = o.step, record.Narrow(k), c.at[args[0]]
		in.f1 = o.of1(k)
	case o.of2 != nil && constant(0):
		s := float32(c.l.Code[args[0]].Value)
		in.step, in.number, in.k, in.args[0] = o.exchanged, true, []float32{s}, c.at[args[1]]
		in.f1 = func(y, x []float32) { o.of2.Left(y, x, s) }
		return in, !constant(1)
	case o.of2 != nil && constant(1):
		s := float32(k[0])
		in.step, in.number, in.k, in.args[0] = o.step, true, []float32{s}, c.at[args[0]]
		in.f1 = func(y, x []float32) { o.of2.Right(y, x, s) }
	case from.Op == scalar.OpMul && args[0] == args[1]:
		in.step, in.f1, in.args[0] = kernel.FusedSquare, kernel.Square, c.at[args[0]]
	case o.of2 != nil:
		in.step, in.exchanged, in.arithmetic = o.step, o.exchanged, o.of2
		in.f2, in.args = o.of2.Rows, [3]int{c.at[args[0]], c.at[args[1]]}
		if o.exchanged == record.NoStep {
			in.step = record.NoStep // with a constant second operand only
		}
	case o.of3 != nil:
		in.f3 = o.of3
		for i, a := range args {
			in.args[i] = c.at[a]
			if constant(i) {
				in.args[i] = c.constant(float32(c.l.Code[a].Value))
			}
		}
		return in, true
	default:
		return in, false
	}
	return in, !constant(0)
}

// constant adds a block that repeats a number, and returns its number.
func (c *compiler) constant(v float32) int {
	block := make([]float32, blockSize)
	fill(block, v)
	c.p.constants = append(c.p.constants, block)
	return c.l.Slots + len(c.p.reads) + len(c.p.constants) - 1
}

// unary returns a program of one operand as a function.
func (p *program) unary() func(y, x []float32) {
	if len(p.code) == 1 && p.code[0].f1 != nil {
		return p.code[0].f1
	}
	return func(y, x []float32) {
		b := takeBlocks()
		defer b.release()
		for lo := 0; lo < len(x); lo += blockSize {
			n := min(blockSize, len(x)-lo)
			for i := range p.registers {
				b.v[i] = b.registers[i][:n]
			}
			b.v[p.registers] = x[lo : lo+n]
			p.compute(y[lo:lo+n], &b.v, n)
		}
	}
}

// blocks are the values that the instructions of a program read and write, and memory for registers and for operands
// that are not read in place. They are kept between runs: on the stack they would escape to the heap, since the
// compiler does not know the functions that instructions call.
type blocks struct {
	registers [maxRegisters + maxOperands][blockSize]float32
	v         views
}

type views [maxRegisters + maxOperands + maxConstants][]float32

var freeBlocks = sync.Pool{New: func() any { return new(blocks) }}

func takeBlocks() *blocks { return freeBlocks.Get().(*blocks) }

func (b *blocks) release() {
	clear(b.v[:])
	freeBlocks.Put(b)
}

// compute runs all instructions on blocks of n numbers.
func (p *program) compute(y []float32, v *views, n int) {
	for i, k := range p.constants {
		v[p.registers+len(p.reads)+i] = k[:n]
	}
	last := len(p.code) - 1
	for i := range p.code {
		in := &p.code[i]
		to := v[in.to]
		if i == last {
			to = y
		}
		switch {
		case in.f1 != nil:
			in.f1(to, v[in.args[0]])
		case in.f2 != nil:
			in.f2(to, v[in.args[0]], v[in.args[1]])
		default:
			in.f3(to, v[in.args[0]], v[in.args[1]], v[in.args[2]])
		}
	}
}
