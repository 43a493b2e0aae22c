package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Elementwise returns launches that compute an expression for each element of out, which has the given shape. in[i]
// is operand i; operands that e does not read may be the zero Operand. Expressions of bools and of floats of at most
// 32 bits are computed in float32. Integers of one type support sums, products, comparisons and the like; float64
// also supports the functions in wideDirect. ok is false if no kernel supports e on these types.
func Elementwise(e scalar.Expr, shape []int, out Operand, in ...Operand) (calls []Call, ok bool) {
	types := make([]tensor.DType, len(in))
	for i := range in {
		types[i] = in[i].Type
	}
	t := plan(e, types, out.Type)
	if t == nil {
		return nil, false
	}
	list := []Operand{out}
	for _, i := range t.reads {
		list = append(list, in[i])
	}
	return mapped("elementwise", t.key, shape, list, t.compute), true
}

// Computes reports whether Elementwise computes e on operands and a result of these types.
func Computes(e scalar.Expr, in []tensor.DType, out tensor.DType) bool {
	return plan(e, in, out) != nil
}

// typed is an expression on operands of known types.
type typed struct {
	e      scalar.Expr
	domain domain
	reads  []int
	in     []tensor.DType // by input
	of     tensor.DType   // of integers
	out    tensor.DType
	key    string
}

func plan(e scalar.Expr, in []tensor.DType, out tensor.DType) *typed {
	if !e.Valid() {
		return nil
	}
	t := &typed{e: scalar.Simplify(scalar.Expand(e, direct)), reads: e.Reads(), in: in, out: out}
	to, ok := domainOf(out)
	if !ok {
		return nil
	}
	found := false // an operand that is not a truth value
	for _, i := range t.reads {
		if i >= len(in) {
			return nil
		}
		switch d, ok := domainOf(in[i]); {
		case !ok, found && d != truth && (d != t.domain || d != number && t.of != in[i]):
			return nil
		case d != truth:
			t.domain, t.of, found = d, in[i], true
		}
	}
	switch {
	case !found && to != truth:
		t.domain, t.of = to, out
	case t.domain == number && to != number && to != truth, t.domain != number && to != truth && out != t.of:
		return nil
	}
	if t.domain == wide {
		t.e = scalar.Simplify(scalar.Expand(e, wideDirect))
	}
	if t.domain != number && !typedOperations(t) {
		return nil
	}
	t.key = fmt.Sprint(t.e, " ", in, t.reads, out)
	return t
}

// typedOperations reports whether all operations of t can be computed in its domain.
func typedOperations(t *typed) bool {
	ok := true
	scalar.Walk(func(e scalar.Expr) {
		switch e.Op() {
		case scalar.OpInput, scalar.OpAdd, scalar.OpSub, scalar.OpMul, scalar.OpMin, scalar.OpMax, scalar.OpNeg, scalar.OpAbs,
			scalar.OpLess, scalar.OpLessEqual, scalar.OpEqual, scalar.OpSelect:
		case scalar.OpConst:
			v := e.Value()
			ok = ok && (t.domain == wide || v == math.Trunc(v) && math.Abs(v) < 0x1p53)
		case scalar.OpDiv, scalar.OpMod:
			b := e.Arg(1)
			ok = ok && (t.domain == wide && e.Op() == scalar.OpDiv ||
				t.domain == integer && b.Op() == scalar.OpConst && b.Value() != 0)
		default:
			ok = ok && t.domain == wide && wideDirect(e.Op())
		}
	}, t.e)
	return ok
}

func (t *typed) compute(k *ptx.Kernel, in []raw) raw {
	elems := make([]Elem, len(t.in))
	for j, i := range t.reads {
		elems[i] = in[j].elem(t.in[i])
	}
	var y Elem
	if t.domain == number {
		s := make([]Scalar, len(elems))
		for _, i := range t.reads {
			s[i] = Scalar{number: elems[i].number, truth: elems[i].truth, is: elems[i].domain == truth}
		}
		r := Expressions(k, []scalar.Expr{t.e}, s)[0]
		if y = (Elem{domain: number, number: r.number}); r.is {
			y = Elem{domain: truth, truth: r.truth}
		}
	} else {
		y = t.typed(k, elems)
	}
	if t.e.Op() == scalar.OpConst { // a value, not a constant of ptx
		switch y.domain {
		case number:
			y.number = k.VarF32(y.number)
		case integer:
			y.integer = k.VarU64(y.integer)
		case wide:
			y.wide = k.VarF64(y.wide)
		}
	}
	if t.domain != number && y.domain == truth && t.out != tensor.Bool {
		y = y.to(tensor.Bool, t.of)
	}
	return y.to(tensor.Float32, t.out).raw(t.out)
}

// typed appends the computation in a domain other than number.
func (t *typed) typed(k *ptx.Kernel, inputs []Elem) Elem {
	known := direct
	if t.domain == wide {
		known = wideDirect
	}
	p := scalar.Linearize(known, t.e)
	v := make([]Elem, len(p.Code))
	for i := range p.Code {
		in := &p.Code[i]
		arg := func(i int) Elem { // in the domain
			e := v[in.Args[i]]
			if e.domain == truth {
				e = e.to(tensor.Bool, t.of)
			}
			return e
		}
		a, b, c := Elem{}, Elem{}, Elem{}
		for j, x := range []*Elem{&a, &b, &c}[:in.Arity()] {
			*x = arg(j)
		}
		holds := func(p ptx.Pred) { v[i] = Elem{domain: truth, truth: p} }
		switch in.Op {
		case scalar.OpInput:
			v[i] = inputs[in.Index]
		case scalar.OpConst:
			v[i] = constant(k, t.domain, in.Value)
		case scalar.OpSelect:
			if p := v[in.Args[0]].pred(); t.domain == wide {
				v[i] = Elem{domain: wide, wide: p.SelectF64(b.wide, c.wide)}
			} else {
				v[i] = Elem{domain: integer, integer: p.SelectU64(b.integer, c.integer)}
			}
		case scalar.OpLess, scalar.OpLessEqual, scalar.OpEqual:
			holds(t.relation(in.Op, a, b))
		default:
			if t.domain == wide {
				v[i] = Elem{domain: wide, wide: wideOperation(k, in.Op, a.wide, b.wide, c.wide)}
			} else {
				v[i] = Elem{domain: integer, integer: t.wrapped(t.operation(in.Op, a.integer, b.integer))}
			}
		}
	}
	return v[p.Results[0]]
}

func (t *typed) relation(op scalar.Op, a, b Elem) ptx.Pred {
	if t.domain == wide {
		switch op {
		case scalar.OpLess:
			return a.wide.Lt(b.wide)
		case scalar.OpLessEqual:
			return a.wide.Le(b.wide)
		}
		return a.wide.Eq(b.wide)
	}
	switch x, y := a.integer, b.integer; {
	case op == scalar.OpEqual:
		return x.Eq(y)
	case op == scalar.OpLess && t.of == tensor.Uint64:
		return x.Lt(y)
	case op == scalar.OpLess:
		return x.SignedLt(y)
	case t.of == tensor.Uint64:
		return x.Le(y)
	default:
		return x.SignedLe(y)
	}
}

func wideOperation(k *ptx.Kernel, op scalar.Op, a, b, c ptx.F64) ptx.F64 {
	nan := func(y ptx.F64) ptx.F64 {
		y = a.IsNaN().SelectF64(a, y)
		return b.IsNaN().SelectF64(b, y)
	}
	switch op {
	case scalar.OpAdd:
		return a.Add(b)
	case scalar.OpSub:
		return a.Sub(b)
	case scalar.OpMul:
		return a.Mul(b)
	case scalar.OpDiv:
		return a.Div(b)
	case scalar.OpFMA:
		return a.FMA(b, c)
	case scalar.OpMin:
		return nan(a.Min(b))
	case scalar.OpMax:
		return nan(a.Max(b))
	case scalar.OpNeg:
		return a.Neg()
	case scalar.OpAbs:
		return a.Abs()
	case scalar.OpSqrt:
		return a.Sqrt()
	case scalar.OpFloor:
		return a.Floor()
	case scalar.OpCeil:
		return a.Ceil()
	case scalar.OpRound:
		return a.RoundEven()
	case scalar.OpFloat32:
		return a.F32().F64()
	case scalar.OpExp:
		return expF64(a)
	case scalar.OpExpm1:
		return expm1F64(a)
	case scalar.OpLog:
		return logF64(a)
	case scalar.OpLog1p:
		return log1pF64(a)
	case scalar.OpTanh:
		return tanhF64(a)
	case scalar.OpPow:
		return powF64(k, k.VarF64(a), k.VarF64(b))
	}
	panic("kernel: no operation " + op.String() + " on float64")
}

func (t *typed) operation(op scalar.Op, a, b ptx.U64) ptx.U64 {
	unsigned := t.of == tensor.Uint64
	pick := func(u, s func(ptx.U64, ptx.U64) ptx.U64) ptx.U64 {
		if unsigned {
			return u(a, b)
		}
		return s(a, b)
	}
	switch op {
	case scalar.OpAdd:
		return a.Add(b)
	case scalar.OpSub:
		return a.Sub(b)
	case scalar.OpMul:
		return a.Mul(b)
	case scalar.OpDiv:
		return pick(ptx.U64.Div, ptx.U64.SignedDiv)
	case scalar.OpMod:
		return pick(ptx.U64.Rem, ptx.U64.SignedRem)
	case scalar.OpMin:
		return pick(ptx.U64.Min, ptx.U64.SignedMin)
	case scalar.OpMax:
		return pick(ptx.U64.Max, ptx.U64.SignedMax)
	case scalar.OpNeg:
		return ptx.L(0).Sub(a)
	case scalar.OpAbs:
		if unsigned {
			return a
		}
		return a.SignedLt(ptx.L(0)).SelectU64(ptx.L(0).Sub(a), a)
	}
	panic("kernel: no operation " + op.String() + " on integers")
}

// wrapped returns x without the bits beyond its type.
func (t *typed) wrapped(x ptx.U64) ptx.U64 {
	if t.of.Bits() == 64 {
		return x
	}
	free := ptx.U(64 - t.of.Bits())
	if signed(t.of) {
		return x.Shl(free).SignedShr(free)
	}
	return x.Shl(free).Shr(free)
}

// Converts reports whether Convert supports these types.
func Converts(from, to tensor.DType) bool {
	_, known := domainOf(from)
	_, gives := domainOf(to)
	return known && gives
}

// Convert returns launches that convert the elements of in to the type of out, as ONNX's Cast. ok is false if no
// kernel supports this.
func Convert(shape []int, out, in Operand) (calls []Call, ok bool) {
	if !Converts(in.Type, out.Type) {
		return nil, false
	}
	if in.Type == out.Type {
		return Move(shape, out, in)
	}
	key := fmt.Sprint(in.Type, out.Type)
	return mapped("convert", key, shape, []Operand{out, in}, func(k *ptx.Kernel, x []raw) raw {
		return x[0].elem(in.Type).to(in.Type, out.Type).raw(out.Type)
	}), true
}

// Move returns launches that copy elements of any type of whole bytes, as bits. ok is false for other types.
func Move(shape []int, out, in Operand) (calls []Call, ok bool) {
	shape, list, ok := asIntegers(shape, []Operand{out, in})
	if !ok {
		return nil, false
	}
	eachPart(shape, list, maxItems, func(dims []int, list []Operand) {
		if c, ok := transposed(dims, list); ok {
			calls = append(calls, c)
			return
		}
		calls = append(calls, mapPart("move", "", dims, list, func(_ *ptx.Kernel, x []raw) raw { return x[0] }))
	})
	return calls, true
}

// asIntegers returns operands as elements of 1 to 8 bytes.
func asIntegers(shape []int, list []Operand) ([]int, []Operand, bool) {
	b := list[0].Type.Bits()
	if b == 0 || b%8 != 0 {
		return nil, nil, false
	}
	out := make([]Operand, len(list))
	for i, o := range list {
		if o.Strides == nil {
			o.Strides = rowMajor(shape)
		}
		out[i] = o
		if b == 128 {
			s := make([]int, 0, len(o.Strides)+1)
			for _, x := range o.Strides {
				s = append(s, 2*x)
			}
			out[i].Offset, out[i].Strides = 2*o.Offset, append(s, 1)
		}
		out[i].Type = map[int]tensor.DType{8: tensor.Uint8, 16: tensor.Uint16, 32: tensor.Uint32, 64: tensor.Uint64,
			128: tensor.Uint64}[b]
	}
	if b == 128 {
		shape = append(shape[:len(shape):len(shape)], 2)
	}
	return shape, out, true
}
