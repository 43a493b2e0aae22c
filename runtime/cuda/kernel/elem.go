package kernel

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// domain is the kind of arithmetic in which elements are computed.
type domain uint8

const (
	number  domain = iota // float32
	truth                 // bool
	integer               // 64 bits, of which the lower ones matter: integers wrap around
	wide                  // float64
)

// domainOf returns the domain of an element type. ok is false for types that kernels can only move.
func domainOf(t tensor.DType) (d domain, ok bool) {
	switch t {
	case tensor.Float32, tensor.Float16, tensor.BFloat16:
		return number, true
	case tensor.Bool:
		return truth, true
	case tensor.Float64:
		return wide, true
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		return integer, true
	}
	return 0, false
}

// signed reports whether an integer type has signs.
func signed(t tensor.DType) bool {
	return t == tensor.Int8 || t == tensor.Int16 || t == tensor.Int32 || t == tensor.Int64
}

// Elem is an element of a tensor in the registers of a thread. The field of its domain is set.
type Elem struct {
	domain domain
	number ptx.F32
	truth  ptx.Pred
	// integer is extended to 64 bits, signed or unsigned as its type requires.
	integer ptx.U64
	wide    ptx.F64
}

// pred reports whether the element is not 0.
func (e Elem) pred() ptx.Pred {
	switch e.domain {
	case number:
		return e.number.Ne(ptx.F(0))
	case integer:
		return e.integer.Ne(ptx.L(0))
	case wide:
		return e.wide.Ne(ptx.D(0))
	}
	return e.truth
}

// to converts an element of type from to the domain of type t, as ONNX's Cast.
func (e Elem) to(from, t tensor.DType) Elem {
	d, ok := domainOf(t)
	if !ok {
		panic("kernel: no arithmetic on elements of type " + t.String())
	}
	if d == e.domain {
		return e
	}
	out := Elem{domain: d}
	switch d {
	case truth:
		out.truth = e.pred()
	case number:
		switch e.domain {
		case truth:
			out.number = e.truth.SelectF32(ptx.F(1), ptx.F(0))
		case integer:
			switch {
			case t != tensor.Float32:
				out.number = oddF32(e.to(from, tensor.Float64).wide)
			case from == tensor.Uint64:
				out.number = e.integer.ToF32()
			default:
				out.number = e.integer.SignedF32()
			}
		case wide:
			if t == tensor.Float32 {
				out.number = e.wide.F32()
			} else {
				out.number = oddF32(e.wide)
			}
		}
	case wide:
		switch {
		case e.domain == number:
			out.wide = e.number.F64()
		case e.domain == truth:
			out.wide = e.truth.SelectF64(ptx.D(1), ptx.D(0))
		case from == tensor.Uint64:
			out.wide = e.integer.ToF64()
		default:
			out.wide = e.integer.SignedF64()
		}
	case integer:
		if e.domain == truth {
			out.integer = e.truth.SelectU64(ptx.L(1), ptx.L(0))
			break
		}
		x := e.to(from, tensor.Float64).wide
		out.integer = x.Abs().Lt(ptx.D(0x1p63)).SelectU64(x.TruncS64(), ptx.L(1<<63)) // as on amd64 processors
		if t == tensor.Uint64 {
			out.integer = x.Ge(ptx.D(0x1p63)).SelectU64(x.TruncU64(), out.integer)
		}
	}
	return out
}

// oddF32 rounds x so that a second rounding, to float16 or bfloat16, has the result of a single one: if x is not a
// float32, it becomes the neighbour with an odd last bit.
func oddF32(x ptx.F64) ptx.F32 {
	y := x.F32Down()
	return y.F64().Ne(x).SelectF32(y.Bits().Or(ptx.U(1)).Float(), y)
}

// raw is the bits of an element as in memory, in 32 or in 64 bits.
type raw struct {
	low  ptx.U32
	long ptx.U64
}

// load reads n elements of size bytes: 1 element, or 4 at an address that is a multiple of their total size.
func load(a ptx.Addr, size, n int) []raw {
	out := make([]raw, n)
	if n == 1 {
		switch size {
		case 1:
			out[0].low = a.LoadU8(0)
		case 2:
			out[0].low = a.LoadB16(0).Wide()
		case 4:
			out[0].low = a.LoadU32(0)
		case 8:
			out[0].long = a.LoadU64(0)
		}
		return out
	}
	switch size {
	case 1:
		x := a.LoadU32(0)
		for i := range out {
			if out[i].low = x; i > 0 {
				out[i].low = x.Shr(ptx.U(8 * i))
			}
			if i < 3 {
				out[i].low = out[i].low.And(ptx.U(255))
			}
		}
	case 2:
		for i, x := range a.LoadU32s(0, 2) {
			out[2*i].low, out[2*i+1].low = x.And(ptx.U(0xffff)), x.Shr(ptx.U(16))
		}
	case 4:
		for i, x := range a.LoadU32s(0, 4) {
			out[i].low = x
		}
	case 8:
		for i := range 2 {
			for j, x := range a.LoadF64s(16*i, 2) {
				out[2*i+j].long = x.Bits()
			}
		}
	}
	return out
}

// store writes elements, as load reads them. It ignores the bits of low beyond the element's size.
func store(a ptx.Addr, size int, x []raw) {
	if len(x) == 1 {
		switch size {
		case 1:
			a.StoreU8(0, x[0].low)
		case 2:
			a.StoreB16(0, x[0].low.Low16())
		case 4:
			a.StoreU32(0, x[0].low)
		case 8:
			a.StoreU64(0, x[0].long)
		}
		return
	}
	switch size {
	case 1:
		w := x[3].low.Shl(ptx.U(24))
		for i := range 3 {
			w = w.Or(x[i].low.And(ptx.U(255)).Shl(ptx.U(8 * i)))
		}
		a.StoreU32(0, w)
	case 2:
		var w [2]ptx.U32
		for i := range w {
			w[i] = x[2*i].low.And(ptx.U(0xffff)).Or(x[2*i+1].low.Shl(ptx.U(16)))
		}
		a.StoreU32s(0, w[:]...)
	case 4:
		a.StoreU32s(0, x[0].low, x[1].low, x[2].low, x[3].low)
	case 8:
		for i := range 2 {
			a.StoreF64s(16*i, x[2*i].long.Float(), x[2*i+1].long.Float())
		}
	}
}

// elem returns the element of type t with these bits.
func (r raw) elem(t tensor.DType) Elem {
	d, ok := domainOf(t)
	if !ok {
		panic("kernel: no arithmetic on elements of type " + t.String())
	}
	e := Elem{domain: d}
	switch t {
	case tensor.Float32:
		e.number = r.low.Float()
	case tensor.Float16:
		e.number = r.low.Low16().F16ToF32()
	case tensor.BFloat16:
		e.number = r.low.Shl(ptx.U(16)).Float()
	case tensor.Bool:
		e.truth = r.low.Ne(ptx.U(0))
	case tensor.Float64:
		e.wide = r.long.Float()
	case tensor.Uint8, tensor.Uint16, tensor.Uint32:
		e.integer = r.low.Wide()
	case tensor.Int8, tensor.Int16:
		free := ptx.U(32 - t.Bits())
		e.integer = r.low.Shl(free).S32().Shr(free).Wide()
	case tensor.Int32:
		e.integer = r.low.S32().Wide()
	default:
		e.integer = r.long
	}
	return e
}

// raw returns the bits of an element as type t, whose domain it must have.
func (e Elem) raw(t tensor.DType) raw {
	switch t {
	case tensor.Float32:
		return raw{low: e.number.Bits()}
	case tensor.Float16:
		return raw{low: e.number.F16().Wide()}
	case tensor.BFloat16:
		return raw{low: e.number.BF16().Wide()}
	case tensor.Bool:
		return raw{low: e.truth.SelectU32(ptx.U(1), ptx.U(0))}
	case tensor.Float64:
		return raw{long: e.wide.Bits()}
	case tensor.Int64, tensor.Uint64:
		return raw{long: e.integer}
	}
	if e.domain != integer {
		panic(fmt.Sprintf("kernel: no elements of type %v", t))
	}
	return raw{low: e.integer.Low()}
}

// constant returns v as an element of a domain.
func constant(k *ptx.Kernel, d domain, v float64) Elem {
	e := Elem{domain: d}
	switch d {
	case number:
		e.number = ptx.F(float32(v))
	case truth:
		e.truth = k.VarU32(ptx.U(0)).Ne(ptx.U(0))
		if v != 0 {
			e.truth = e.truth.Not()
		}
	case integer:
		e.integer = k.VarU64(ptx.L(uint64(int64(v))))
	case wide:
		e.wide = k.VarF64(ptx.D(v))
	}
	return e
}
