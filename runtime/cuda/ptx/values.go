package ptx

import (
	"fmt"
	"math"
	"strconv"
)

// F32 is a number of type float32.
type F32 struct{ v value }

// F64 is a number of type float64.
type F64 struct{ v value }

// U32 is 32 bits: an unsigned number, or other bits.
type U32 struct{ v value }

// S32 is a signed number of 32 bits.
type S32 struct{ v value }

// U64 is 64 bits: an unsigned number.
type U64 struct{ v value }

// B16 is 16 bits: a float16, a bfloat16 or an integer.
type B16 struct{ v value }

// Pred is a truth value.
type Pred struct{ v value }

// F returns a constant.
func F(x float32) F32 { return F32{value{text: fmt.Sprintf("0f%08X", math.Float32bits(x))}} }

// D returns a constant.
func D(x float64) F64 { return F64{value{text: fmt.Sprintf("0d%016X", math.Float64bits(x))}} }

// U returns a constant.
func U[T int | uint32](x T) U32 {
	if int64(x) < 0 || int64(x) > math.MaxUint32 {
		panic("ptx: constant " + strconv.FormatInt(int64(x), 10) + " is not of 32 bits")
	}
	return U32{value{text: strconv.FormatInt(int64(x), 10)}}
}

// I returns a constant.
func I(x int) S32 {
	if x != int(int32(x)) {
		panic("ptx: constant " + strconv.Itoa(x) + " is not of 32 bits")
	}
	return S32{value{text: strconv.Itoa(x)}}
}

// L returns a constant.
func L(x uint64) U64 { return U64{value{text: strconv.FormatUint(x, 10)}} }

// kernel returns the kernel that the values belong to.
func kernel(all ...value) *Kernel {
	for _, v := range all {
		if v.k != nil {
			return v.k
		}
	}
	panic("ptx: an operation on constants only")
}

// F16ToF32 converts a float16 to float32.
func (x B16) F16ToF32() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.f32.f16", x.v)}
}

// Wide returns x as the lower bits of a 32-bit number.
func (x B16) Wide() U32 {
	return U32{kernel(x.v).compute(b32Class, "cvt.u32.u16", x.v)}
}

// And reports whether both are true.
func (x Pred) And(a Pred) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "and.pred", x.v, a.v)}
}

// Or reports whether either is true.
func (x Pred) Or(a Pred) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "or.pred", x.v, a.v)}
}

// Xor reports whether exactly one is true.
func (x Pred) Xor(a Pred) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "xor.pred", x.v, a.v)}
}

// Not reports whether x is false.
func (x Pred) Not() Pred {
	return Pred{kernel(x.v).compute(predClass, "not.pred", x.v)}
}

// BF16ToF32 converts a bfloat16 to float32.
func (x B16) BF16ToF32() F32 { return x.Wide().Shl(U(16)).Float() }

// SelectF32 returns a where p is true, and b elsewhere.
func (p Pred) SelectF32(a, b F32) F32 {
	return F32{p.v.k.compute(f32Class, "selp.f32", a.v, b.v, p.v)}
}

// VarF32 returns a value that Set can change.
func (k *Kernel) VarF32(first F32) F32 {
	return F32{k.compute(f32Class, "mov.f32", first.v)}
}

// SelectF64 returns a where p is true, and b elsewhere.
func (p Pred) SelectF64(a, b F64) F64 {
	return F64{p.v.k.compute(f64Class, "selp.f64", a.v, b.v, p.v)}
}

// VarF64 returns a value that Set can change.
func (k *Kernel) VarF64(first F64) F64 {
	return F64{k.compute(f64Class, "mov.f64", first.v)}
}

// SelectU32 returns a where p is true, and b elsewhere.
func (p Pred) SelectU32(a, b U32) U32 {
	return U32{p.v.k.compute(b32Class, "selp.b32", a.v, b.v, p.v)}
}

// VarU32 returns a value that Set can change.
func (k *Kernel) VarU32(first U32) U32 {
	return U32{k.compute(b32Class, "mov.b32", first.v)}
}

// SelectS32 returns a where p is true, and b elsewhere.
func (p Pred) SelectS32(a, b S32) S32 {
	return S32{p.v.k.compute(b32Class, "selp.b32", a.v, b.v, p.v)}
}

// VarS32 returns a value that Set can change.
func (k *Kernel) VarS32(first S32) S32 {
	return S32{k.compute(b32Class, "mov.b32", first.v)}
}

// SelectU64 returns a where p is true, and b elsewhere.
func (p Pred) SelectU64(a, b U64) U64 {
	return U64{p.v.k.compute(b64Class, "selp.b64", a.v, b.v, p.v)}
}

// VarU64 returns a value that Set can change.
func (k *Kernel) VarU64(first U64) U64 {
	return U64{k.compute(b64Class, "mov.b64", first.v)}
}
