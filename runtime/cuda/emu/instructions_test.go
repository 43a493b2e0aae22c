package emu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"testing"
)

// instruction is a case: text with d, a, b, c for registers, whose types are given in that order, and the expected
// result. Types are register types: h, r, f, d (b64), D (f64), p.
type instruction struct {
	text  string
	types string
	want  func(a, b, c uint64) uint64
}

var edges32 = []uint64{0, 1, 2, 31, 32, 33, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x10000, 0x12345678, 0x7fffffff, 0x80000000,
	0x80000001, 0xdeadbeef, 0xfffffffe, 0xffffffff}

var edges64 = []uint64{0, 1, 2, 63, 64, 0xffffffff, 0x100000000, 0x123456789abcdef0, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 2, 1<<64 - 1}

func floats32() []uint64 {
	var out []uint64
	for _, x := range []float64{0, 1, 1.5, 0.1, 2.5, 3.5, 1e-3, 12345.678, 0x1p-126, 0x1p-149, 0x1.fffffep127, 0x1.fffffep-127, 0x1p24, 0x1.000002p0,
		0x1.000006p0, 65504, 65520, 1e38, 2147483648, 4294967296, 0x1.4p3, 0x1.003p0, 0x1.001p0, 0x1.fffp0, math.Inf(1)} {
		b := uint64(math.Float32bits(float32(x)))
		out = append(out, b, b|1<<31)
	}
	return append(out, nan32)
}

func floats64() []uint64 {
	var out []uint64
	for _, x := range []float64{0, 1, 1.5, 0.1, 2.5, 1e-3, 12345.678, 0x1p-1022, 0x1p-1074, math.MaxFloat64, 0x1p53, 0x1.000001p0, 0x1.0000010000001p0,
		2147483647.5, 2147483648, 4294967296, 0x1p-140, 0x1p-150, 1e39, math.MaxFloat32, math.Inf(1)} {
		b := math.Float64bits(x)
		out = append(out, b, b|1<<63)
	}
	return append(out, math.Float64bits(math.NaN()))
}

func f(x uint64) float32 { return math.Float32frombits(uint32(x)) }
func g(x uint64) float64 { return math.Float64frombits(x) }
func b32(x float32) uint64 {
	if x != x {
		return nan32
	}
	return uint64(math.Float32bits(x))
}
func b64(x float64) uint64 { return math.Float64bits(x) }
func truth(x bool) uint64 {
	if x {
		return 1
	}
	return 0
}

// exact32 rounds the exact sum of a product and a number to float32, by big numbers.
func exact32(x, y, z float32) float32 {
	for _, v := range []float32{x, y, z} {
		if v != v || math.IsInf(float64(v), 0) {
			return float32(float64(x)*float64(y) + float64(z))
		}
	}
	p := new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
	p.SetPrec(2000).Add(p, new(big.Float).SetPrec(2000).SetFloat64(float64(z)))
	if p.Sign() == 0 {
		return float32(float64(x)*float64(y) + float64(z))
	}
	r, _ := p.Float32()
	return r
}

func s32(x uint64) int64 { return int64(int32(x)) }
func low(x int64) uint64 { return uint64(uint32(x)) }
func bound(x float64, low, high float64) int64 {
	switch {
	case x != x:
		return 0
	case x <= low:
		return int64(low)
	case x >= high:
		return int64(high)
	}
	return int64(x)
}

var instructions = []instruction{
	{"add.u32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return low(int64(a + b)) }},
	{"sub.s32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return low(int64(a - b)) }},
	{"add.sat.s32 d, a, b", "rrr", func(a, b, _ uint64) uint64 {
		return low(min(max(s32(a)+s32(b), math.MinInt32), math.MaxInt32))
	}},
	{"add.u64 d, a, b", "ddd", func(a, b, _ uint64) uint64 { return a + b }},
	{"sub.u64 d, a, b", "ddd", func(a, b, _ uint64) uint64 { return a - b }},
	{"mul.lo.s32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return low(s32(a) * s32(b)) }},
	{"mul.hi.u32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return a * b >> 32 }},
	{"mul.hi.s32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return low(s32(a) * s32(b) >> 32) }},
	{"mul.wide.u32 d, a, b", "drr", func(a, b, _ uint64) uint64 { return a * b }},
	{"mul.wide.s32 d, a, b", "drr", func(a, b, _ uint64) uint64 { return uint64(s32(a) * s32(b)) }},
	{"mul.hi.u64 d, a, b", "ddd", func(a, b, _ uint64) uint64 { h, _ := bits.Mul64(a, b); return h }},
	{"mul.hi.s64 d, a, b", "ddd", func(a, b, _ uint64) uint64 {
		p := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(int64(b)))
		return uint64(p.Rsh(p, 64).Int64())
	}},
	{"mad.lo.u32 d, a, b, c", "rrrr", func(a, b, c uint64) uint64 { return low(int64(a*b + c)) }},
	{"mad.hi.u32 d, a, b, c", "rrrr", func(a, b, c uint64) uint64 { return low(int64(a*b>>32 + c)) }},
	{"mad.wide.u32 d, a, b, c", "drrd", func(a, b, c uint64) uint64 { return a*b + c }},
	{"mad.wide.s32 d, a, b, c", "drrd", func(a, b, c uint64) uint64 { return uint64(s32(a)*s32(b)) + c }},
	{"mad.lo.u64 d, a, b, c", "dddd", func(a, b, c uint64) uint64 { return a*b + c }},
	{"div.u32 d, a, b", "rrr", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return full
		}
		return a / b
	}},
	{"rem.s32 d, a, b", "rrr", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return a
		}
		return low(s32(a) % s32(b))
	}},
	{"div.s64 d, a, b", "ddd", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return 1<<64 - 1
		}
		return uint64(int64(a) / int64(b))
	}},
	{"rem.u64 d, a, b", "ddd", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return a
		}
		return a % b
	}},
	{"min.s32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return low(min(s32(a), s32(b))) }},
	{"max.u32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return max(a, b) }},
	{"max.s64 d, a, b", "ddd", func(a, b, _ uint64) uint64 { return uint64(max(int64(a), int64(b))) }},
	{"abs.s32 d, a", "rr", func(a, _, _ uint64) uint64 { return low(max(s32(a), -s32(a))) }},
	{"neg.s64 d, a", "dd", func(a, _, _ uint64) uint64 { return -a }},
	{"and.b32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return a & b }},
	{"or.b64 d, a, b", "ddd", func(a, b, _ uint64) uint64 { return a | b }},
	{"xor.b32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return a ^ b }},
	{"not.b32 d, a", "rr", func(a, _, _ uint64) uint64 { return a ^ full }},
	{"shl.b32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return low(int64(a << b)) }},
	{"shr.u32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return a >> b }},
	{"shr.s32 d, a, b", "rrr", func(a, b, _ uint64) uint64 { return low(s32(a) >> b) }},
	{"shl.b64 d, a, b", "ddr", func(a, b, _ uint64) uint64 { return a << b }},
	{"shr.s64 d, a, b", "ddr", func(a, b, _ uint64) uint64 { return uint64(int64(a) >> b) }},
	{"shf.l.wrap.b32 d, a, b, c", "rrrr", func(a, b, c uint64) uint64 { return (b<<32 | a) << (c & 31) >> 32 }},
	{"shf.r.clamp.b32 d, a, b, c", "rrrr", func(a, b, c uint64) uint64 { return low(int64((b<<32 | a) >> min(c, 32))) }},
	{"bfi.b32 d, a, b, 5, 11", "rrr", func(a, b, _ uint64) uint64 { return b&^(0x7ff<<5) | a&0x7ff<<5 }},
	{"bfi.b32 d, a, b, 28, 32", "rrr", func(a, b, _ uint64) uint64 { return b&0xfffffff | low(int64(a<<28)) }},
	{"bfe.u32 d, a, 5, 11", "rr", func(a, _, _ uint64) uint64 { return a >> 5 & 0x7ff }},
	{"bfe.s32 d, a, 5, 11", "rr", func(a, _, _ uint64) uint64 { return low(int64(a<<48) >> 53) }},
	{"brev.b32 d, a", "rr", func(a, _, _ uint64) uint64 { return uint64(bits.Reverse32(uint32(a))) }},
	{"clz.b32 d, a", "rr", func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(a))) }},
	{"popc.b64 d, a", "rd", func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
	{"prmt.b32 d, a, b, 0x5410", "rrr", func(a, b, _ uint64) uint64 { return b<<16&full | a&0xffff }},
	{"prmt.b32 d, a, b, 0x8fb7", "rrr", func(a, b, _ uint64) uint64 {
		sign := func(x uint64) uint64 { return -(x >> 7 & 1) & 0xff }
		return sign(a)<<24 | sign(b>>24)<<16 | sign(a>>24)<<8 | b>>24
	}},
	{"lop3.b32 d, a, b, c, 0x96", "rrrr", func(a, b, c uint64) uint64 { return a ^ b ^ c }},
	{"lop3.b32 d, a, b, c, 0xe8", "rrrr", func(a, b, c uint64) uint64 { return a&b | a&c | b&c }},
	{"setp.lt.s32 d, a, b", "prr", func(a, b, _ uint64) uint64 { return truth(s32(a) < s32(b)) }},
	{"setp.hs.u32 d, a, b", "prr", func(a, b, _ uint64) uint64 { return truth(a >= b) }},
	{"setp.ne.u64 d, a, b", "pdd", func(a, b, _ uint64) uint64 { return truth(a != b) }},
	{"setp.gt.s64 d, a, b", "pdd", func(a, b, _ uint64) uint64 { return truth(int64(a) > int64(b)) }},
	{"setp.lt.f32 d, a, b", "pff", func(a, b, _ uint64) uint64 { return truth(f(a) < f(b)) }},
	{"setp.neu.f32 d, a, b", "pff", func(a, b, _ uint64) uint64 { return truth(f(a) != f(b)) }},
	{"setp.ne.f32 d, a, b", "pff", func(a, b, _ uint64) uint64 { return truth(f(a) < f(b) || f(a) > f(b)) }},
	{"setp.geu.f64 d, a, b", "pDD", func(a, b, _ uint64) uint64 { return truth(!(g(a) < g(b))) }},
	{"setp.nan.f32 d, a, a", "pf", func(a, _, _ uint64) uint64 { return truth(f(a) != f(a)) }},
	{"selp.b32 d, a, b, 1", "rrr", func(a, _, _ uint64) uint64 { return a }},
	{"mov.b64 d, {a, b}", "drr", func(a, b, _ uint64) uint64 { return b<<32 | a }},
	{"mov.f32 d, 0f3FC00000", "f", func(_, _, _ uint64) uint64 { return b32(1.5) }},
	{"mov.b32 d, -5", "r", func(_, _, _ uint64) uint64 { return low(-5) }},
	{"mov.f64 d, 1.5e-3", "D", func(_, _, _ uint64) uint64 { return b64(1.5e-3) }},

	{"add.rn.f32 d, a, b", "fff", func(a, b, _ uint64) uint64 { return b32(f(a) + f(b)) }},
	{"sub.rn.f32 d, a, b", "fff", func(a, b, _ uint64) uint64 { return b32(f(a) - f(b)) }},
	{"mul.rn.f32 d, a, b", "fff", func(a, b, _ uint64) uint64 { return b32(f(a) * f(b)) }},
	{"fma.rn.f32 d, a, b, c", "ffff", func(a, b, c uint64) uint64 { return b32(exact32(f(a), f(b), f(c))) }},
	{"div.rn.f32 d, a, b", "fff", func(a, b, _ uint64) uint64 { return b32(f(a) / f(b)) }},
	{"sqrt.rn.f32 d, a", "ff", func(a, _, _ uint64) uint64 { return b32(float32(math.Sqrt(float64(f(a))))) }},
	{"rcp.rn.f32 d, a", "ff", func(a, _, _ uint64) uint64 { return b32(1 / f(a)) }},
	{"neg.f32 d, a", "ff", func(a, _, _ uint64) uint64 { return b32(-f(a)) }},
	{"abs.f32 d, a", "ff", func(a, _, _ uint64) uint64 { return b32(float32(math.Abs(float64(f(a))))) }},
	{"min.f32 d, a, b", "fff", func(a, b, _ uint64) uint64 {
		if f(a) != f(a) {
			return b
		}
		if f(b) != f(b) {
			return a
		}
		return b32(min(f(a), f(b)))
	}},
	{"max.NaN.f32 d, a, b", "fff", func(a, b, _ uint64) uint64 { return b32(max(f(a), f(b))) }},
	{"add.sat.f32 d, a, b", "fff", func(a, b, _ uint64) uint64 {
		if x := f(a) + f(b); x > 0 {
			return b32(min(x, 1))
		}
		return 0
	}},
	{"add.rn.f64 d, a, b", "DDD", func(a, b, _ uint64) uint64 { return b64(g(a) + g(b)) }},
	{"mul.rn.f64 d, a, b", "DDD", func(a, b, _ uint64) uint64 { return b64(g(a) * g(b)) }},
	{"fma.rn.f64 d, a, b, a", "DDD", func(a, b, _ uint64) uint64 { return b64(math.FMA(g(a), g(b), g(a))) }},
	{"div.rn.f64 d, a, b", "DDD", func(a, b, _ uint64) uint64 { return b64(g(a) / g(b)) }},
	{"sqrt.rn.f64 d, a", "DD", func(a, _, _ uint64) uint64 { return b64(math.Sqrt(g(a))) }},

	{"cvt.rni.f32.f32 d, a", "ff", func(a, _, _ uint64) uint64 { return b32(float32(math.RoundToEven(float64(f(a))))) }},
	{"cvt.rmi.f32.f32 d, a", "ff", func(a, _, _ uint64) uint64 { return b32(float32(math.Floor(float64(f(a))))) }},
	{"cvt.rpi.f64.f64 d, a", "DD", func(a, _, _ uint64) uint64 { return b64(math.Ceil(g(a))) }},
	{"cvt.rzi.f32.f32 d, a", "ff", func(a, _, _ uint64) uint64 { return b32(float32(math.Trunc(float64(f(a))))) }},
	{"cvt.rni.s32.f32 d, a", "rf", func(a, _, _ uint64) uint64 {
		return low(bound(math.RoundToEven(float64(f(a))), math.MinInt32, math.MaxInt32))
	}},
	{"cvt.rzi.u32.f64 d, a", "rD", func(a, _, _ uint64) uint64 {
		if g(a) != g(a) { // of float64, and as 64 bits, NaN gives the highest bit
			return 1 << 31
		}
		return low(bound(math.Trunc(g(a)), 0, math.MaxUint32))
	}},
	{"cvt.rzi.s8.f64 d, a", "rD", func(a, _, _ uint64) uint64 {
		if g(a) != g(a) {
			return low(-128)
		}
		return low(bound(math.Trunc(g(a)), -128, 127))
	}},
	{"cvt.rzi.u64.f32 d, a", "df", func(a, _, _ uint64) uint64 {
		switch x := math.Trunc(float64(f(a))); {
		case x != x:
			return 1 << 63
		case x >= 0x1p64:
			return 1<<64 - 1
		default:
			return uint64(max(x, 0))
		}
	}},
	{"cvt.rzi.s64.f64 d, a", "dD", func(a, _, _ uint64) uint64 {
		switch x := math.Trunc(g(a)); {
		case x >= 0x1p63:
			return 1<<63 - 1
		case x < -0x1p63:
			return 1 << 63
		case x != x:
			return 1 << 63
		default:
			return uint64(int64(x))
		}
	}},
	{"cvt.rn.f32.u32 d, a", "fr", func(a, _, _ uint64) uint64 { return b32(float32(uint32(a))) }},
	{"cvt.rn.f32.s32 d, a", "fr", func(a, _, _ uint64) uint64 { return b32(float32(int32(a))) }},
	{"cvt.rn.f32.s64 d, a", "fd", func(a, _, _ uint64) uint64 { return b32(float32(int64(a))) }},
	{"cvt.rn.f32.u64 d, a", "fd", func(a, _, _ uint64) uint64 { return b32(float32(a)) }},
	{"cvt.rz.f32.u32 d, a", "fr", func(a, _, _ uint64) uint64 {
		z, _ := new(big.Float).SetPrec(24).SetMode(big.ToZero).SetUint64(a).Float32()
		return b32(z)
	}},
	{"cvt.rn.f64.s32 d, a", "Dr", func(a, _, _ uint64) uint64 { return b64(float64(int32(a))) }},
	{"cvt.rn.f64.u64 d, a", "Dd", func(a, _, _ uint64) uint64 { return b64(float64(a)) }},
	{"cvt.f64.f32 d, a", "Df", func(a, _, _ uint64) uint64 { return b64(float64(f(a))) }},
	{"cvt.rn.f32.f64 d, a", "fD", func(a, _, _ uint64) uint64 { return b32(float32(g(a))) }},
	{"cvt.rz.f32.f64 d, a", "fD", func(a, _, _ uint64) uint64 {
		x := g(a)
		z := float32(x)
		if x == x && math.Abs(float64(z)) > math.Abs(x) {
			z = math.Nextafter32(z, 0)
		}
		return b32(z)
	}},
	{"cvt.u64.u32 d, a", "dr", func(a, _, _ uint64) uint64 { return a }},
	{"cvt.s64.s32 d, a", "dr", func(a, _, _ uint64) uint64 { return uint64(s32(a)) }},
	{"cvt.u32.u64 d, a", "rd", func(a, _, _ uint64) uint64 { return low(int64(a)) }},
	{"cvt.u8.u32 d, a", "dr", func(a, _, _ uint64) uint64 { return a & 0xff }},
	{"cvt.s16.s32 d, a", "dr", func(a, _, _ uint64) uint64 { return uint64(int64(int16(a))) }},
	{"cvt.s8.u64 d, a", "rd", func(a, _, _ uint64) uint64 { return low(int64(int8(a))) }},
	{"cvt.u32.u8 d, a", "rr", func(a, _, _ uint64) uint64 { return a & 0xff }},
	{"cvt.s32.s8 d, a", "rr", func(a, _, _ uint64) uint64 { return low(int64(int8(a))) }},
	{"cvt.s32.s16 d, a", "rr", func(a, _, _ uint64) uint64 { return low(int64(int16(a))) }},
	{"cvt.sat.s8.s32 d, a", "rr", func(a, _, _ uint64) uint64 { return low(min(max(s32(a), -128), 127)) }},
	{"cvt.sat.u8.s32 d, a", "rr", func(a, _, _ uint64) uint64 { return low(min(max(s32(a), 0), 255)) }},
	{"cvt.rna.tf32.f32 d, a", "rf", func(a, _, _ uint64) uint64 {
		if x := f(a); x != x || math.IsInf(float64(x), 0) {
			return b32(x)
		}
		return (a + 0x1000) &^ 0x1fff
	}},
	{"cvt.rn.bf16.f32 d, a", "hf", func(a, _, _ uint64) uint64 {
		if f(a) != f(a) {
			return 0x7fff
		}
		return (a + 0x7fff + a>>16&1) >> 16
	}},
	{"cvt.rn.f16.f32 d, a", "hf", func(a, _, _ uint64) uint64 { return half(f(a)) }},
	{"cvt.f32.f16 d, a", "fh", func(a, _, _ uint64) uint64 {
		x := float64(a&0x3ff) * 0x1p-24
		switch e := int(a >> 10 & 31); {
		case e == 31 && a&0x3ff != 0:
			return nan32
		case e == 31:
			x = math.Inf(1)
		case e > 0:
			x = math.Ldexp(float64(a&0x3ff|0x400), e-25)
		}
		if a&0x8000 != 0 {
			x = -x
			if x == 0 {
				x = math.Copysign(0, -1)
			}
		}
		return b32(float32(x))
	}},
	{"cvt.u16.u32 d, a", "hr", func(a, _, _ uint64) uint64 { return a & 0xffff }},
}

// half searches for the float16 nearest to x.
func half(x float32) uint64 {
	sign := uint64(math.Float32bits(x)) >> 31 << 15
	a := math.Abs(float64(x))
	switch {
	case x != x:
		return 0x7fff
	case a >= 65520:
		return sign | 0x7c00
	}
	unit := 0x1p-24
	if a >= 0x1p-14 {
		_, e := math.Frexp(a)
		unit = math.Ldexp(1, e-11)
	}
	v := math.RoundToEven(a/unit) * unit
	if v < 0x1p-14 {
		return sign | uint64(v/0x1p-24)
	}
	_, e := math.Frexp(v)
	return sign | uint64(e+14)<<10 + uint64(v/math.Ldexp(1, e-11)) - 0x400
}

// values returns the operands that a type is tried with.
func values(typ byte, most int) []uint64 {
	var all []uint64
	switch typ {
	case 'r':
		all = edges32
	case 'h':
		all = []uint64{0, 1, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x7c00, 0x7c01, 0x8000, 0xfbff, 0xfc00, 0xffff}
	case 'd':
		all = edges64
	case 'f':
		all = floats32()
	case 'D':
		all = floats64()
	}
	if most > 0 && len(all) > most {
		return all[:most]
	}
	return all
}

func TestInstructions(t *testing.T) {
	names := map[byte]string{'r': "%r", 'h': "%h", 'd': "%rd", 'f': "%f", 'D': "%fd", 'p': "%p"}
	for _, c := range instructions {
		t.Run(c.text, func(t *testing.T) {
			// Operands a, b and c are in registers 20 to 22 or 4 to 6, as many as there are, and d is register 10 or 3.
			reg := func(i int) string {
				typ := c.types[i]
				if typ == 'r' || typ == 'd' {
					return fmt.Sprintf("%s%d", names[typ], 20+i)
				}
				return fmt.Sprintf("%s%d", names[typ], 3+i)
			}
			loads, text := "mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r2, %r1, 32, %r0;\n", ""
			for i := 1; i < len(c.types); i++ {
				loads += fmt.Sprintf("mad.wide.u32 %%rd%d, %%r2, 8, %%rd%d;\n", 10+i, i)
				loads += fmt.Sprintf("ld.global.%s %s, [%%rd%d];\n", map[byte]string{'r': "b32", 'h': "b16", 'd': "b64", 'f': "f32",
					'D': "f64"}[c.types[i]], reg(i), 10+i)
			}
			space := false
			for i := range len(c.text) {
				ch := c.text[i]
				if ch == ' ' {
					space = true
				}
				word := i > 0 && (isWord(c.text[i-1]) || c.text[i-1] == '.') || i+1 < len(c.text) && isWord(c.text[i+1])
				if n := int(ch - 'a'); space && !word && ch >= 'a' && ch <= 'd' {
					text += reg([]int{1, 2, 3, 0}[n])
				} else {
					text += string(ch)
				}
			}
			text += ";\nmad.wide.u32 %rd10, %r2, 8, %rd0;\n"
			switch c.types[0] {
			case 'r', 'f':
				text += "mov.b32 %r8, " + reg(0) + ";\ncvt.u64.u32 %rd9, %r8;\n"
			case 'h':
				text += "cvt.u64.u16 %rd9, " + reg(0) + ";\n"
			case 'p':
				text += "selp.b64 %rd9, 1, 0, " + reg(0) + ";\n"
			default:
				text += "mov.b64 %rd9, " + reg(0) + ";\n"
			}
			b := newBench(t, Options{})
			defer b.clean()
			fn := b.load(kernelText(len(c.types), loads+text+"st.global.b64 [%rd10], %rd9;"))

			// All combinations of operands.
			most := 0
			if len(c.types) == 4 {
				most = 24
			}
			sets := [3][]uint64{{0}, {0}, {0}}
			for i := 1; i < len(c.types); i++ {
				sets[i-1] = values(c.types[i], most)
			}
			var in [3][]uint64
			for _, x := range sets[0] {
				for _, y := range sets[1] {
					for _, z := range sets[2] {
						in[0], in[1], in[2] = append(in[0], x), append(in[1], y), append(in[2], z)
					}
				}
			}
			n := len(in[0])
			blocks := (n + 31) / 32
			out := b.alloc(blocks * 256)
			ptrs := append(b.ptrs[:0:0], out)
			for i := 1; i < len(c.types); i++ {
				raw := make([]byte, blocks*256)
				for j, x := range in[i-1] {
					binary.LittleEndian.PutUint64(raw[8*j:], x)
				}
				ptrs = append(ptrs, b.upload(raw))
			}
			must(t, b.launch(fn, blocks, 32, ptrs...))
			got := b.download(out, blocks*256)
			bad := 0
			for j := range n {
				x, want := binary.LittleEndian.Uint64(got[8*j:]), c.want(in[0][j], in[1][j], in[2][j])
				if x != want && !(c.types[0] == 'D' && g(x) != g(x) && g(want) != g(want)) {
					if bad++; bad < 5 {
						t.Errorf("of %#x, %#x, %#x: found %#x, expected %#x", in[0][j], in[1][j], in[2][j], x, want)
					}
				}
			}
		})
	}
}
