package scalar

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
)

// At evaluates e for one element of each operand. It panics if e reads an operand that x lacks.
func (e Expr) At(x ...float64) float64 {
	known := map[Expr]float64{}
	var at func(Expr) float64
	at = func(e Expr) float64 {
		n := e.h.Value()
		switch n.op {
		case OpInput:
			return x[n.index]
		case OpConst:
			return math.Float64frombits(n.bits)
		}
		if v, ok := known[e]; ok {
			return v
		}
		var v float64
		if n.op.IsFunction() {
			v = at(e.Define())
		} else {
			var a [MaxArgs]float64
			for i := range n.op.Arity() {
				a[i] = at(n.args[i])
			}
			v = compute(n.op, a)
		}
		known[e] = v
		return v
	}
	return at(e)
}

// compute evaluates a primitive.
func compute(op Op, a [MaxArgs]float64) float64 {
	var y [1]float64
	var v [MaxArgs][]float64
	for i := range v {
		v[i] = a[i : i+1]
	}
	if f := functions[op]; f != nil {
		return f(a[0])
	}
	block(op, y[:], v[0], v[1], v[2])
	return y[0]
}

// BlockSize is the number of elements that a Machine computes at a time: large enough that the cost of dispatch is
// small, and small enough that the registers stay in the first-level cache.
const BlockSize = 256

// A Machine evaluates a program in float64, block by block. It holds the registers, so only one goroutine may use it at
// a time. Run does not allocate after the first call.
type Machine struct {
	p    *Program
	n    int // elements of a block
	view [][]float64
	regs [][]float64 // by slot
	same [][]float64 // by instruction: a block of copies of a constant or of an operand of one element
	to   []int       // by instruction: the result that it computes, or -1
}

// NewMachine makes a machine for a program without functions; it panics for others. Runs of at most size elements need
// registers of that size only.
func NewMachine(p *Program, size int) *Machine {
	m := &Machine{p: p, n: max(1, min(size, BlockSize))}
	views := make([][]float64, 2*len(p.Code)+p.Slots)
	m.view, m.same, m.regs = views[:len(p.Code)], views[len(p.Code):2*len(p.Code)], views[2*len(p.Code):]
	m.to = make([]int, len(p.Code))
	blocks := p.Slots
	for i := range p.Code {
		m.to[i] = -1
		switch in := &p.Code[i]; {
		case in.Op == OpConst:
			blocks++
		case in.Op.IsFunction():
			panic(fmt.Sprintf("scalar.NewMachine: the program has function %v", in.Op))
		}
	}
	for k := len(p.Results) - 1; k >= 0; k-- {
		if p.Code[p.Results[k]].Slot >= 0 {
			m.to[p.Results[k]] = k
		}
	}
	all := make([]float64, blocks*m.n)
	next := func() []float64 {
		b := all[:m.n:m.n]
		all = all[m.n:]
		return b
	}
	for i := range m.regs {
		m.regs[i] = next()
	}
	for i := range p.Code {
		if in := &p.Code[i]; in.Op == OpConst {
			m.same[i] = next()
			fill(m.same[i], in.Value)
		}
	}
	return m
}

func fill(y []float64, v float64) {
	for i := range y {
		y[i] = v
	}
}

// Run computes n elements of every result into out, from the operands in. An operand has n elements, or one for all;
// one that is not read may be nil. If there is one result, out[0] may be an operand; otherwise out must not overlap
// with in. Run panics if a slice is too short.
func (m *Machine) Run(n int, out, in [][]float64) {
	code := m.p.Code
	if n == 0 {
		return
	}
	for i := range code {
		if code[i].Op != OpInput {
			continue
		}
		x := in[code[i].Index]
		if len(x) != 1 {
			_ = x[n-1]
			continue
		}
		if m.same[i] == nil {
			m.same[i] = make([]float64, m.n)
		} else if math.Float64bits(m.same[i][0]) == math.Float64bits(x[0]) {
			continue
		}
		fill(m.same[i], x[0])
	}
	for lo := 0; lo < n; lo += m.n {
		hi := min(lo+m.n, n)
		k := hi - lo
		for i := range code {
			c := &code[i]
			switch {
			case c.Op == OpConst:
				m.view[i] = m.same[i][:k]
				continue
			case c.Op == OpInput:
				if x := in[c.Index]; len(x) == 1 {
					m.view[i] = m.same[i][:k]
				} else {
					m.view[i] = x[lo:hi]
				}
				continue
			case m.to[i] >= 0:
				m.view[i] = out[m.to[i]][lo:hi]
			default:
				m.view[i] = m.regs[c.Slot][:k]
			}
			block(c.Op, m.view[i], m.view[c.Args[0]], m.view[c.Args[1]], m.view[c.Args[2]])
		}
		for r, i := range m.p.Results {
			if m.to[i] != r {
				copy(out[r][lo:hi], m.view[i])
			}
		}
	}
}

// functions are the primitives of one operand that take a call.
var functions = [numOps]func(float64) float64{
	OpExp: math.Exp, OpExpm1: math.Expm1, OpLog: log, OpLog1p: math.Log1p, OpErf: math.Erf, OpErfc: math.Erfc,
	OpSin: math.Sin, OpCos: math.Cos, OpTan: math.Tan, OpAsin: math.Asin, OpAcos: math.Acos, OpAtan: math.Atan,
	OpSinh: math.Sinh, OpCosh: math.Cosh, OpTanh: math.Tanh, OpAsinh: math.Asinh, OpAcosh: math.Acosh,
	OpAtanh:    math.Atanh,
	OpFloat16:  func(x float64) float64 { return float64(tensor.ToF16(x).Float32()) },
	OpBFloat16: func(x float64) float64 { return float64(tensor.ToBF16(x).Float32()) },
}

// block computes a primitive on slices of one length. y may be an operand; excess operands are ignored.
func block(op Op, y, a, b, c []float64) {
	a = a[:len(y)]
	switch op {
	case OpAdd:
		b = b[:len(y)]
		for i := range y {
			y[i] = a[i] + b[i]
		}
	case OpSub:
		b = b[:len(y)]
		for i := range y {
			y[i] = a[i] - b[i]
		}
	case OpMul:
		b = b[:len(y)]
		for i := range y {
			y[i] = a[i] * b[i]
		}
	case OpDiv:
		b = b[:len(y)]
		for i := range y {
			y[i] = a[i] / b[i]
		}
	case OpFMA:
		b, c = b[:len(y)], c[:len(y)]
		for i := range y {
			y[i] = math.FMA(a[i], b[i], c[i])
		}
	case OpMin:
		b = b[:len(y)]
		for i := range y {
			y[i] = min(a[i], b[i])
		}
	case OpMax:
		b = b[:len(y)]
		for i := range y {
			y[i] = max(a[i], b[i])
		}
	case OpMod:
		b = b[:len(y)]
		for i := range y {
			y[i] = math.Mod(a[i], b[i])
		}
	case OpPow:
		b = b[:len(y)]
		for i := range y {
			y[i] = pow(a[i], b[i])
		}
	case OpNeg:
		for i := range y {
			y[i] = -a[i]
		}
	case OpAbs:
		for i := range y {
			y[i] = math.Abs(a[i])
		}
	case OpSqrt:
		for i := range y {
			y[i] = math.Sqrt(a[i])
		}
	case OpFloor:
		for i := range y {
			y[i] = math.Floor(a[i])
		}
	case OpCeil:
		for i := range y {
			y[i] = math.Ceil(a[i])
		}
	case OpRound:
		for i := range y {
			y[i] = math.RoundToEven(a[i])
		}
	case OpLess:
		b = b[:len(y)]
		for i := range y {
			y[i] = float64(int64(bit(a[i] < b[i])))
		}
	case OpLessEqual:
		b = b[:len(y)]
		for i := range y {
			y[i] = float64(int64(bit(a[i] <= b[i])))
		}
	case OpEqual:
		b = b[:len(y)]
		for i := range y {
			y[i] = float64(int64(bit(a[i] == b[i])))
		}
	case OpSelect:
		b, c = b[:len(y)], c[:len(y)]
		for i := range y {
			take := -bit(a[i] != 0) // all bits or none
			y[i] = math.Float64frombits(math.Float64bits(b[i])&take | math.Float64bits(c[i])&^take)
		}
	case OpFloat32:
		for i := range y {
			y[i] = float64(float32(a[i]))
		}
	default:
		f := functions[op]
		for i := range y {
			y[i] = f(a[i])
		}
	}
}

// bit is 1 if c holds. It compiles to no branch, which would be mispredicted half of the time.
func bit(c bool) uint64 {
	var b uint8
	if c {
		b = 1
	}
	return uint64(b)
}

// smallest is the smallest normal number. Below it, math.Log of amd64 does not read the exponent: it returns -709.09
// for 1e-310, and math.Pow, which calls it, is as wrong.
const smallest = 0x1p-1022

func log(x float64) float64 {
	if 0 < x && x < smallest {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

func pow(x, y float64) float64 {
	if 0 < x && x < smallest && math.Abs(y) < 1024 {
		return math.Pow(x*0x1p54, y) * math.Exp2(-54*y)
	}
	return math.Pow(x, y)
}
