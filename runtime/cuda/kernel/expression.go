package kernel

import (
	"math"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// operation computes an operation of expressions in float32.
type operation struct {
	of1 func(x ptx.F32) ptx.F32
	of2 func(a, b ptx.F32) ptx.F32
	of3 func(a, b, c ptx.F32) ptx.F32
	// in1 and in2 are of1 and of2 for functions with control flow.
	in1 func(k *ptx.Kernel, x ptx.F32) ptx.F32
	in2 func(k *ptx.Kernel, a, b ptx.F32) ptx.F32
	bound
}

// bound is the accuracy of results. They differ from the float64 results by at most ulps units in the last place, or
// by loss·max(1, |x|). If ulps is not 0, results may also differ by 1.2e-38·max(1, |x|), about the smallest normal
// number, and may be infinity above 3.39e38.
type bound struct{ ulps, loss float64 }

// operations are the operations with an implementation. Other functions are replaced by their definitions.
// Comparisons and Select are part of Expression.
var operations = map[scalar.Op]*operation{
	scalar.OpAdd:   {of2: ptx.F32.Add, bound: bound{0.5, 0}},
	scalar.OpSub:   {of2: ptx.F32.Sub, bound: bound{0.5, 0}},
	scalar.OpMul:   {of2: ptx.F32.Mul, bound: bound{0.5, 0}},
	scalar.OpDiv:   {of2: ptx.F32.Div, bound: bound{0.5, 0}},
	scalar.OpFMA:   {of3: ptx.F32.FMA, bound: bound{0.5, 0}},
	scalar.OpMin:   {of2: ptx.F32.MinNaN},
	scalar.OpMax:   {of2: ptx.F32.MaxNaN},
	scalar.OpMod:   {in2: modF32},
	scalar.OpPow:   {of2: powF32, bound: bound{0.5, 0}},
	scalar.OpNeg:   {of1: ptx.F32.Neg},
	scalar.OpAbs:   {of1: ptx.F32.Abs},
	scalar.OpSqrt:  {of1: ptx.F32.Sqrt, bound: bound{0.5, 0}},
	scalar.OpFloor: {of1: ptx.F32.Floor},
	scalar.OpCeil:  {of1: ptx.F32.Ceil},
	scalar.OpRound: {of1: ptx.F32.RoundEven},

	scalar.OpExp:      {of1: expF32, bound: bound{1, 0}},
	scalar.OpExpm1:    {of1: expm1F32, bound: bound{1.5, 0}},
	scalar.OpLog:      {of1: logF32, bound: bound{1, 0}},
	scalar.OpLog1p:    {of1: log1pF32, bound: bound{1, 0}},
	scalar.OpErf:      {of1: erfF32, bound: bound{2, 0}},
	scalar.OpErfc:     {of1: erfcF32, bound: bound{6, 0}},
	scalar.OpSin:      {in1: sinF32, bound: bound{2, 0}},
	scalar.OpCos:      {in1: cosF32, bound: bound{2, 0}},
	scalar.OpTanh:     {of1: tanhF32, bound: bound{2, 0}},
	scalar.OpSigmoid:  {of1: sigmoidF32, bound: bound{3, 0}},
	scalar.OpSwish:    {of2: swishF32, bound: bound{3, 0}},
	scalar.OpGelu:     {of1: geluF32, bound: bound{1.5, 6e-8}},
	scalar.OpGeluTanh: {of1: geluTanhF32, bound: bound{4, 1e-7}},
	scalar.OpSoftplus: {of1: softplusF32, bound: bound{2, 0}},
	scalar.OpMish:     {of1: mishF32, bound: bound{4.1, 0}},

	scalar.OpTan:   {in1: tanF32, bound: bound{0.5, 0}},
	scalar.OpAsin:  {of1: asinF32, bound: bound{0.5, 0}},
	scalar.OpAcos:  {of1: acosF32, bound: bound{0.5, 0}},
	scalar.OpAtan:  {of1: atanF32, bound: bound{0.5, 0}},
	scalar.OpSinh:  {of1: sinhF32, bound: bound{0.5, 0}},
	scalar.OpCosh:  {of1: coshF32, bound: bound{0.5, 0}},
	scalar.OpAsinh: {of1: asinhF32, bound: bound{0.5, 0}},
	scalar.OpAcosh: {of1: acoshF32, bound: bound{0.5, 0}},
	scalar.OpAtanh: {of1: atanhF32, bound: bound{0.5, 0}},

	scalar.OpFloat32:  {of1: func(x ptx.F32) ptx.F32 { return x }},
	scalar.OpFloat16:  {of1: func(x ptx.F32) ptx.F32 { return x.F16().F16ToF32() }, bound: bound{0.5, 0}},
	scalar.OpBFloat16: {of1: func(x ptx.F32) ptx.F32 { return x.BF16().BF16ToF32() }, bound: bound{0.5, 0}},
}

// Scalar is a number or a truth value in the registers of a thread, for expressions.
type Scalar struct {
	number ptx.F32
	truth  ptx.Pred
	is     bool // truth
}

// Number returns x as a Scalar.
func Number(x ptx.F32) Scalar { return Scalar{number: x} }

// Truth returns a Scalar that is 1 where p is true, and 0 elsewhere.
func Truth(p ptx.Pred) Scalar { return Scalar{truth: p, is: true} }

// F32 returns the number; for a truth value, 1 or 0.
func (s Scalar) F32() ptx.F32 {
	if s.is {
		return s.truth.SelectF32(ptx.F(1), ptx.F(0))
	}
	return s.number
}

// Pred reports whether the number is not 0.
func (s Scalar) Pred() ptx.Pred {
	if s.is {
		return s.truth
	}
	return s.number.Ne(ptx.F(0))
}

// Expression appends the computation of e in float32, and returns its value, which is a constant of ptx if e is
// constant. in[i] is operand i; operands that e does not read may be absent. Each operation rounds its result, with
// the accuracy given in operations.
//
// Kernels call it for epilogues, to compute e in the current threads. It may emit control flow. It must therefore
// not be called under Guard, or in a branch that only some threads of a warp take while the others wait.
func Expression(k *ptx.Kernel, e scalar.Expr, in ...ptx.F32) ptx.F32 {
	all := make([]Scalar, len(in))
	for i, x := range in {
		all[i] = Number(x)
	}
	s := Expressions(k, []scalar.Expr{e}, all)[0]
	return s.F32()
}

// Expressions is Expression for several expressions, with common parts computed once, and for operands and results
// that may be truth values. Constant results are constants of ptx.
func Expressions(k *ptx.Kernel, list []scalar.Expr, in []Scalar) []Scalar {
	simple := make([]scalar.Expr, len(list))
	for i, e := range list {
		simple[i] = scalar.Simplify(scalar.Expand(e, direct))
	}
	p := scalar.Linearize(direct, simple...)
	v := make([]Scalar, len(p.Code))
	for i := range p.Code {
		v[i] = instruction(k, p, &p.Code[i], v, in)
	}
	out := make([]Scalar, len(list))
	for i, r := range p.Results {
		out[i] = v[r]
	}
	return out
}

// direct reports whether an operation has an implementation.
func direct(op scalar.Op) bool { return operations[op] != nil }

// instruction appends the computation of one instruction of p; v are the values before it.
func instruction(k *ptx.Kernel, p *scalar.Program, in *scalar.Instr, v, inputs []Scalar) Scalar {
	arg := func(i int) Scalar { return v[in.Args[i]] }
	x := func(i int) ptx.F32 { return arg(i).F32() }
	constant := func(i int) (float64, bool) {
		c := &p.Code[in.Args[i]]
		return c.Value, c.Op == scalar.OpConst
	}
	switch in.Op {
	case scalar.OpInput:
		return inputs[in.Index]
	case scalar.OpConst:
		return Number(ptx.F(float32(in.Value)))
	case scalar.OpLess:
		return Truth(x(0).Lt(x(1)))
	case scalar.OpLessEqual:
		return Truth(x(0).Le(x(1)))
	case scalar.OpEqual:
		return Truth(x(0).Eq(x(1)))
	case scalar.OpSelect:
		a, aConst := constant(1)
		b, bConst := constant(2)
		c := arg(0).Pred()
		switch {
		case aConst && bConst && a == 1 && b == 0 && !math.Signbit(b):
			return Truth(c)
		case aConst && bConst && a == 0 && b == 1 && !math.Signbit(a):
			return Truth(c.Not())
		case arg(1).is && bConst && b == 0 && !math.Signbit(b): // And
			return Truth(c.And(arg(1).truth))
		case aConst && a == 1 && arg(2).is: // Or
			return Truth(c.Or(arg(2).truth))
		}
		return Number(c.SelectF32(x(1), x(2)))
	case scalar.OpPow:
		if b, ok := constant(1); ok {
			if y, ok := powerOf(x(0), b); ok {
				return Number(y)
			}
		}
	}
	o := operations[in.Op]
	switch {
	case o == nil:
		panic("kernel: expressions have an operation " + in.Op.String() + ", which no kernel computes")
	case o.of1 != nil:
		return Number(o.of1(x(0)))
	case in.Op == scalar.OpPow:
		return Number(powF32(k.VarF32(x(0)), k.VarF32(x(1)))) // constants must be values here
	case o.of2 != nil:
		return Number(o.of2(x(0), x(1)))
	case o.of3 != nil:
		return Number(o.of3(x(0), x(1), x(2)))
	case o.in1 != nil:
		return Number(o.in1(k, x(0)))
	}
	return Number(o.in2(k, k.VarF32(x(0)), k.VarF32(x(1))))
}

// powerOf returns x to the power of certain constants, and whether b is one of them.
func powerOf(x ptx.F32, b float64) (ptx.F32, bool) {
	switch b {
	case 1:
		return x, true
	case 2:
		return x.Mul(x), true
	case -1:
		return x.Rcp(), true
	case 0.5: // unlike the square root, it is 0 for -0 and ∞ for -∞
		inf := float32(math.Inf(1))
		y := x.Add(ptx.F(0)).Sqrt()
		return x.Eq(ptx.F(-inf)).SelectF32(ptx.F(inf), y), true
	}
	return ptx.F32{}, false
}
