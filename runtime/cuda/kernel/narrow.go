package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Rounding is how Narrow rounds magnitudes to powers of two, the values of float8e8m0.
type Rounding string

// The roundings of ONNX's Cast to float8e8m0. Nearest rounds halves up.
const (
	Up      Rounding = "up"
	Down    Rounding = "down"
	Nearest Rounding = "nearest"
)

// small is a float of 4 or 8 bits: the widths of its fields, and the use of its special patterns.
type small struct {
	e, m, bias uint32
	inf        bool // the maximum exponent is for infinities and NaNs
	uz         bool // no negative zero; its pattern is the only NaN
	finite     bool // neither infinity nor NaN
}

var smalls = map[tensor.DType]small{
	tensor.Float8E4M3FN:   {e: 4, m: 3, bias: 7},
	tensor.Float8E4M3FNUZ: {e: 4, m: 3, bias: 8, uz: true},
	tensor.Float8E5M2:     {e: 5, m: 2, bias: 15, inf: true},
	tensor.Float8E5M2FNUZ: {e: 5, m: 2, bias: 16, uz: true},
	tensor.Float4E2M1:     {e: 2, m: 1, bias: 1, finite: true},
}

// widened returns the type in which elements of a type are computed: float32 for floats of 4 and 8 bits, a 32-bit
// integer for integers of 2 and 4 bits.
func widened(t tensor.DType) tensor.DType {
	switch t {
	case tensor.Int4, tensor.Int2:
		return tensor.Int32
	case tensor.Uint4, tensor.Uint2:
		return tensor.Uint32
	case tensor.Float8E8M0:
		return tensor.Float32
	}
	if _, ok := smalls[t]; ok {
		return tensor.Float32
	}
	return t
}

// Narrows reports whether Narrow supports these types.
func Narrows(from, to tensor.DType) bool {
	return (widened(from) != from || widened(to) != to) && Converts(widened(from), widened(to))
}

// Narrow returns launches that convert n elements as ONNX's Cast does, where at least one type has less than 8 bits
// or is a float of 8 bits. Elements of less than 8 bits are packed, the first in the low bits. saturate clamps
// numbers to the range of a float of 8 bits; rounding is for float8e8m0. ok is false for other types.
func Narrow(n int, saturate bool, rounding Rounding, out Buffer, to tensor.DType, in Buffer, from tensor.DType) (calls []Call,
	ok bool) {
	if !Narrows(from, to) {
		return nil, false
	}
	unit := 8 / min(from.Bits(), to.Bits(), 8) // elements per item: whole bytes of both types
	code := cachedCode(fmt.Sprint("narrow ", from, to, saturate, rounding), func() *Code {
		return New("narrow", mapThreads, func(k *ptx.Kernel) { narrowCode(k, unit, saturate, rounding, to, from) })
	})
	for first := 0; first < n; first += maxItems {
		part := min(n-first, maxItems)
		items := (part + unit - 1) / unit
		calls = append(calls, NewCall(code, driver.Dim{X: uint32((items + mapThreads - 1) / mapThreads), Y: 1, Z: 1}, U32(part),
			PtrAt(out, first*to.Bits()/8), PtrAt(in, first*from.Bits()/8)))
	}
	return calls, true
}

func narrowCode(k *ptx.Kernel, unit int, saturate bool, rounding Rounding, to, from tensor.DType) {
	n, out, in := k.U32Param("n"), k.PtrParam("out"), k.PtrParam("in")
	first := k.BlockX().MAD(ptx.U(mapThreads), k.ThreadX()).Mul(ptx.U(unit))
	k.If(first.Lt(n), func() {
		packed := k.VarU32(ptx.U(0)) // bits of the result, if it is packed
		for i := range unit {
			at := first.Add(ptx.U(i))
			k.If(at.Lt(n), func() {
				var x raw
				if b := from.Bits(); b < 8 {
					byteOf := in.Index(at.Shr(ptx.U(log2(8/b))), 1).LoadU8(0)
					x.low = byteOf.Shr(ptx.U(i * b % 8)).And(ptx.U(1<<b - 1))
				} else {
					x = load(in.Index(at, b/8), b/8, 1)[0]
				}
				y := narrowed(x, from, to, saturate, rounding)
				if b := to.Bits(); b < 8 {
					packed.Set(packed.Or(y.low.And(ptx.U(1<<b - 1)).Shl(ptx.U(i * b % 8))))
					if (i+1)*b%8 == 0 {
						out.Index(at.Shr(ptx.U(log2(8/b))), 1).StoreU8(0, packed)
						packed.Set(ptx.U(0))
					} else {
						k.If(at.Add(ptx.U(1)).Eq(n), func() { out.Index(at.Shr(ptx.U(log2(8/b))), 1).StoreU8(0, packed) })
					}
				} else {
					store(out.Index(at, b/8), b/8, []raw{y})
				}
			})
		}
	})
}

func log2(n int) (k int) {
	for ; n > 1; n /= 2 {
		k++
	}
	return k
}

// narrowed converts an element.
func narrowed(x raw, from, to tensor.DType, saturate bool, rounding Rounding) raw {
	var e Elem
	switch f, isSmall := smalls[from]; {
	case isSmall:
		e = Elem{domain: number, number: f.number(x.low)}
	case from == tensor.Float8E8M0:
		y := x.low.Eq(ptx.U(0)).SelectU32(ptx.U(1<<22), x.low.Shl(ptx.U(23)))
		e = Elem{domain: number, number: x.low.Eq(ptx.U(255)).SelectU32(ptx.U(nan32), y).Float()}
	case from.Bits() < 8:
		free := ptx.U(32 - from.Bits())
		if e = (Elem{domain: integer, integer: x.low.Wide()}); widened(from) == tensor.Int32 {
			e.integer = x.low.Shl(free).S32().Shr(free).Wide()
		}
	default:
		e = x.elem(from)
	}
	from = widened(from)
	switch f, isSmall := smalls[to]; {
	case isSmall:
		// float16, rounded to odd so that only the second rounding counts
		return raw{low: f.bits(e.to(from, tensor.Float16).number, saturate)}
	case to == tensor.Float8E8M0:
		return raw{low: powerBits(e.to(from, tensor.Float16).number, saturate, rounding)}
	}
	return e.to(from, widened(to)).raw(widened(to))
}

const nan32 = 0x7fc00000

// number returns the float with these bits.
func (f small) number(u ptx.U32) ptx.F32 {
	body := u.And(ptx.U(1<<(f.e+f.m) - 1))
	scale := ptx.F(float32(math.Ldexp(1, 127-int(f.bias))))
	y := body.Shl(ptx.U(int(23 - f.m))).Float().Mul(scale).Bits() // exact, also for subnormal numbers
	y = y.Or(u.Shr(ptx.U(int(f.e + f.m))).Shl(ptx.U(31)))
	top := (1<<f.e - 1) << f.m
	switch {
	case f.inf:
		sign := u.Shr(ptx.U(int(f.e + f.m))).Shl(ptx.U(31))
		y = body.Eq(ptx.U(top)).SelectU32(sign.Or(ptx.U(0x7f800000)), y)
		y = body.Gt(ptx.U(top)).SelectU32(ptx.U(nan32), y)
	case f.uz:
		y = u.Eq(ptx.U(1<<(f.e+f.m))).SelectU32(ptx.U(nan32), y)
	case !f.finite:
		y = body.Eq(ptx.U(1<<(f.e+f.m)-1)).SelectU32(ptx.U(nan32), y)
	}
	return y.Float()
}

// bits returns x rounded to nearest, ties to even.
func (f small) bits(x ptx.F32, saturate bool) ptx.U32 {
	negative, ones := 1<<(f.e+f.m), 1<<(f.e+f.m)-1
	nan, largest := ones, ones-1
	switch {
	case f.uz:
		nan, largest = negative, ones
	case f.inf:
		nan, largest = (1<<f.e-1)<<f.m|1<<(f.m-1), (1<<f.e-2)<<f.m|(1<<f.m-1)
	case f.finite:
		nan, largest = negative, ones
	}
	b := x.Bits()
	sign, a := b.Shr(ptx.U(31)).Shl(ptx.U(int(f.e+f.m))), b.And(ptx.U(0x7fffffff))
	// The exponent, at least the subnormals' one. x is rounded to multiples of 2 to the power of the exponent minus
	// m.
	e := a.Shr(ptx.U(23)).Max(ptx.U(int(128 - f.bias))).Min(ptx.U(254))
	scale := ptx.U(int(254 + f.m)).Sub(e).Shl(ptx.U(23)).Float()
	q := a.Float().Mul(scale).RoundEven().S32().U32()
	u := e.Sub(ptx.U(int(128 - f.bias))).Shl(ptx.U(int(f.m))).Add(q)
	over := sign.Or(ptx.U(nan))
	switch {
	case saturate || f.finite:
		over = sign.Or(ptx.U(largest))
	case f.inf:
		over = sign.Or(ptx.U((1<<f.e - 1) << f.m))
	case f.uz:
		over = ptx.U(nan)
	}
	beyond := u.Gt(ptx.U(largest)).Or(a.Ge(ptx.U(0x7f800000)))
	y := beyond.SelectU32(over, u.Or(sign))
	if f.uz { // -0 does not exist
		y = a.Lt(ptx.U(0x7f800000)).And(u.Eq(ptx.U(0))).SelectU32(ptx.U(0), y)
	}
	return a.Gt(ptx.U(0x7f800000)).SelectU32(ptx.U(nan), y)
}

// powerBits returns the magnitude of x as a power of two, with the bits of float8e8m0.
func powerBits(x ptx.F32, saturate bool, rounding Rounding) ptx.U32 {
	a := x.Bits().And(ptx.U(0x7fffffff))
	e, rest := a.Shr(ptx.U(23)), a.And(ptx.U(1<<23-1))
	var more ptx.Pred // half a unit is at another bit for subnormal numbers
	switch denormal := e.Eq(ptx.U(0)); rounding {
	case Up:
		more = rest.Gt(denormal.SelectU32(ptx.U(1<<22), ptx.U(0)))
	case Nearest:
		more = rest.Ge(denormal.SelectU32(ptx.U(3<<21), ptx.U(1<<22)))
	}
	y := e
	if rounding != Down {
		y = e.Add(more.SelectU32(ptx.U(1), ptx.U(0)))
	}
	if saturate {
		y = y.Min(ptx.U(254))
	}
	return a.Ge(ptx.U(0x7f800000)).SelectU32(ptx.U(255), y)
}
