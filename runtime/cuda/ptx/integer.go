package ptx

// Float returns the float32 with these bits.
func (x U32) Float() F32 {
	return F32{kernel(x.v).compute(f32Class, "mov.b32", x.v)}
}

// Float returns the float64 with these bits.
func (x U64) Float() F64 {
	return F64{kernel(x.v).compute(f64Class, "mov.b64", x.v)}
}

// Add returns x + a, modulo overflow.
func (x U32) Add(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "add.u32", x.v, a.v)}
}

// Sub returns x - a, modulo overflow.
func (x U32) Sub(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "sub.u32", x.v, a.v)}
}

// Mul returns x·a, modulo overflow.
func (x U32) Mul(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "mul.lo.u32", x.v, a.v)}
}

// MAD returns x·a + b, modulo overflow.
func (x U32) MAD(a, b U32) U32 {
	return U32{kernel(x.v, a.v, b.v).compute(b32Class, "mad.lo.u32", x.v, a.v, b.v)}
}

// MulHi returns the upper half of the product.
func (x U32) MulHi(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "mul.hi.u32", x.v, a.v)}
}

// Div returns x/a without its fraction; slow.
func (x U32) Div(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "div.u32", x.v, a.v)}
}

// Rem returns the remainder of x/a; slow.
func (x U32) Rem(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "rem.u32", x.v, a.v)}
}

// Min returns the smaller of both.
func (x U32) Min(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "min.u32", x.v, a.v)}
}

// Max returns the greater of both.
func (x U32) Max(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "max.u32", x.v, a.v)}
}

// Eq reports whether x = a.
func (x U32) Eq(a U32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.eq.u32", x.v, a.v)}
}

// Ne reports whether x ≠ a.
func (x U32) Ne(a U32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.ne.u32", x.v, a.v)}
}

// Lt reports whether x < a.
func (x U32) Lt(a U32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.lt.u32", x.v, a.v)}
}

// Le reports whether x ≤ a.
func (x U32) Le(a U32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.le.u32", x.v, a.v)}
}

// Gt reports whether x > a.
func (x U32) Gt(a U32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.gt.u32", x.v, a.v)}
}

// Ge reports whether x ≥ a.
func (x U32) Ge(a U32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.ge.u32", x.v, a.v)}
}

// Shr returns x shifted right by a bits.
func (x U32) Shr(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "shr.u32", x.v, a.v)}
}

// Shl returns x shifted left by a bits.
func (x U32) Shl(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "shl.b32", x.v, a.v)}
}

// And returns the bits set in both.
func (x U32) And(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "and.b32", x.v, a.v)}
}

// Or returns the bits set in either.
func (x U32) Or(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "or.b32", x.v, a.v)}
}

// Xor returns the bits set in exactly one.
func (x U32) Xor(a U32) U32 {
	return U32{kernel(x.v, a.v).compute(b32Class, "xor.b32", x.v, a.v)}
}

// Not returns the bits not set in x.
func (x U32) Not() U32 {
	return U32{kernel(x.v).compute(b32Class, "not.b32", x.v)}
}

// Add returns x + a, modulo overflow.
func (x S32) Add(a S32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "add.s32", x.v, a.v)}
}

// Sub returns x - a, modulo overflow.
func (x S32) Sub(a S32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "sub.s32", x.v, a.v)}
}

// Mul returns x·a, modulo overflow.
func (x S32) Mul(a S32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "mul.lo.s32", x.v, a.v)}
}

// MAD returns x·a + b, modulo overflow.
func (x S32) MAD(a, b S32) S32 {
	return S32{kernel(x.v, a.v, b.v).compute(b32Class, "mad.lo.s32", x.v, a.v, b.v)}
}

// MulHi returns the upper half of the product.
func (x S32) MulHi(a S32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "mul.hi.s32", x.v, a.v)}
}

// Div returns x/a without its fraction; slow.
func (x S32) Div(a S32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "div.s32", x.v, a.v)}
}

// Rem returns the remainder of x/a; slow.
func (x S32) Rem(a S32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "rem.s32", x.v, a.v)}
}

// Min returns the smaller of both.
func (x S32) Min(a S32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "min.s32", x.v, a.v)}
}

// Max returns the greater of both.
func (x S32) Max(a S32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "max.s32", x.v, a.v)}
}

// Eq reports whether x = a.
func (x S32) Eq(a S32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.eq.s32", x.v, a.v)}
}

// Ne reports whether x ≠ a.
func (x S32) Ne(a S32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.ne.s32", x.v, a.v)}
}

// Lt reports whether x < a.
func (x S32) Lt(a S32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.lt.s32", x.v, a.v)}
}

// Le reports whether x ≤ a.
func (x S32) Le(a S32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.le.s32", x.v, a.v)}
}

// Gt reports whether x > a.
func (x S32) Gt(a S32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.gt.s32", x.v, a.v)}
}

// Ge reports whether x ≥ a.
func (x S32) Ge(a S32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.ge.s32", x.v, a.v)}
}

// Shr returns x shifted right by a bits, with copies of its sign.
func (x S32) Shr(a U32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "shr.s32", x.v, a.v)}
}

// Shl returns x shifted left by a bits.
func (x S32) Shl(a U32) S32 {
	return S32{kernel(x.v, a.v).compute(b32Class, "shl.b32", x.v, a.v)}
}

// Add returns x + a, modulo overflow.
func (x U64) Add(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "add.u64", x.v, a.v)}
}

// Sub returns x - a, modulo overflow.
func (x U64) Sub(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "sub.u64", x.v, a.v)}
}

// Mul returns x·a, modulo overflow.
func (x U64) Mul(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "mul.lo.u64", x.v, a.v)}
}

// MAD returns x·a + b, modulo overflow.
func (x U64) MAD(a, b U64) U64 {
	return U64{kernel(x.v, a.v, b.v).compute(b64Class, "mad.lo.u64", x.v, a.v, b.v)}
}

// MulHi returns the upper half of the product.
func (x U64) MulHi(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "mul.hi.u64", x.v, a.v)}
}

// Div returns x/a without its fraction; slow.
func (x U64) Div(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "div.u64", x.v, a.v)}
}

// Rem returns the remainder of x/a; slow.
func (x U64) Rem(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "rem.u64", x.v, a.v)}
}

// Min returns the smaller of both.
func (x U64) Min(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "min.u64", x.v, a.v)}
}

// Max returns the greater of both.
func (x U64) Max(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "max.u64", x.v, a.v)}
}

// Eq reports whether x = a.
func (x U64) Eq(a U64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.eq.u64", x.v, a.v)}
}

// Ne reports whether x ≠ a.
func (x U64) Ne(a U64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.ne.u64", x.v, a.v)}
}

// Lt reports whether x < a.
func (x U64) Lt(a U64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.lt.u64", x.v, a.v)}
}

// Le reports whether x ≤ a.
func (x U64) Le(a U64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.le.u64", x.v, a.v)}
}

// Gt reports whether x > a.
func (x U64) Gt(a U64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.gt.u64", x.v, a.v)}
}

// Ge reports whether x ≥ a.
func (x U64) Ge(a U64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.ge.u64", x.v, a.v)}
}

// Shr returns x shifted right by a bits.
func (x U64) Shr(a U32) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "shr.u64", x.v, a.v)}
}

// Shl returns x shifted left by a bits.
func (x U64) Shl(a U32) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "shl.b64", x.v, a.v)}
}

// And returns the bits set in both.
func (x U64) And(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "and.b64", x.v, a.v)}
}

// Or returns the bits set in either.
func (x U64) Or(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "or.b64", x.v, a.v)}
}

// Xor returns the bits set in exactly one.
func (x U64) Xor(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "xor.b64", x.v, a.v)}
}

// Not returns the bits not set in x.
func (x U64) Not() U64 {
	return U64{kernel(x.v).compute(b64Class, "not.b64", x.v)}
}

// Neg returns -x.
func (x S32) Neg() S32 {
	return S32{kernel(x.v).compute(b32Class, "neg.s32", x.v)}
}

// Wide returns x as 64 bits.
func (x U32) Wide() U64 {
	return U64{kernel(x.v).compute(b64Class, "cvt.u64.u32", x.v)}
}

// Wide returns x as 64 bits, with copies of its sign.
func (x S32) Wide() U64 {
	return U64{kernel(x.v).compute(b64Class, "cvt.s64.s32", x.v)}
}

// Low returns the lower half.
func (x U64) Low() U32 {
	return U32{kernel(x.v).compute(b32Class, "cvt.u32.u64", x.v)}
}

// MulWide returns x·a as 64 bits.
func (x U32) MulWide(a U32) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "mul.wide.u32", x.v, a.v)}
}

// ToF32 returns the nearest float32.
func (x U32) ToF32() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rn.f32.u32", x.v)}
}

// ToF32 returns the nearest float32.
func (x S32) ToF32() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rn.f32.s32", x.v)}
}

// SignedF64 returns the float64 nearest to x as a signed number.
func (x U64) SignedF64() F64 {
	return F64{kernel(x.v).compute(f64Class, "cvt.rn.f64.s64", x.v)}
}

// ToF64 returns x as float64.
func (x S32) ToF64() F64 {
	return F64{kernel(x.v).compute(f64Class, "cvt.rn.f64.s32", x.v)}
}

// Reverse returns x with its bits in reverse order.
func (x U32) Reverse() U32 {
	return U32{kernel(x.v).compute(b32Class, "brev.b32", x.v)}
}

// Low16 returns the lower half.
func (x U32) Low16() B16 {
	return B16{kernel(x.v).compute(b16Class, "cvt.u16.u32", x.v)}
}

// S32 returns x as a signed number.
func (x U32) S32() S32 { return S32(x) }

// U32 returns x as an unsigned number.
func (x S32) U32() U32 { return U32(x) }

// MulWide returns x·a as 64 bits.
func (x S32) MulWide(a S32) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "mul.wide.s32", x.v, a.v)}
}

// MADWide returns x·a + b, with a 64-bit product.
func (x S32) MADWide(a S32, b U64) U64 {
	return U64{kernel(x.v, a.v, b.v).compute(b64Class, "mad.wide.s32", x.v, a.v, b.v)}
}

// Methods of U64 whose names start with Signed treat their operands as signed numbers.

// SignedMin returns the smaller of both.
func (x U64) SignedMin(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "min.s64", x.v, a.v)}
}

// SignedMax returns the greater of both.
func (x U64) SignedMax(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "max.s64", x.v, a.v)}
}

// SignedDiv returns x/a without its fraction; slow.
func (x U64) SignedDiv(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "div.s64", x.v, a.v)}
}

// SignedRem returns the remainder of x/a, with the sign of x; slow.
func (x U64) SignedRem(a U64) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "rem.s64", x.v, a.v)}
}

// SignedShr returns x shifted right by a bits, with copies of its sign.
func (x U64) SignedShr(a U32) U64 {
	return U64{kernel(x.v, a.v).compute(b64Class, "shr.s64", x.v, a.v)}
}

// SignedLt reports whether x < a.
func (x U64) SignedLt(a U64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.lt.s64", x.v, a.v)}
}

// SignedLe reports whether x ≤ a.
func (x U64) SignedLe(a U64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.le.s64", x.v, a.v)}
}

// SignedF32 returns the nearest float32.
func (x U64) SignedF32() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rn.f32.s64", x.v)}
}

// ToF32 returns the nearest float32.
func (x U64) ToF32() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rn.f32.u64", x.v)}
}

// ToF64 returns the nearest float64.
func (x U64) ToF64() F64 {
	return F64{kernel(x.v).compute(f64Class, "cvt.rn.f64.u64", x.v)}
}

// Set changes x, which must come from VarU32.
func (x U32) Set(a U32) { x.v.k.emit("mov.b32", x.v, a.v) }

// Set changes x, which must come from VarS32.
func (x S32) Set(a S32) { x.v.k.emit("mov.b32", x.v, a.v) }

// Set changes x, which must come from VarU64.
func (x U64) Set(a U64) { x.v.k.emit("mov.b64", x.v, a.v) }
