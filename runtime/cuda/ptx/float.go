package ptx

// Add returns x + a.
func (x F32) Add(a F32) F32 {
	return F32{kernel(x.v, a.v).compute(f32Class, "add.rn.f32", x.v, a.v)}
}

// Sub returns x - a.
func (x F32) Sub(a F32) F32 {
	return F32{kernel(x.v, a.v).compute(f32Class, "sub.rn.f32", x.v, a.v)}
}

// Mul returns x·a.
func (x F32) Mul(a F32) F32 {
	return F32{kernel(x.v, a.v).compute(f32Class, "mul.rn.f32", x.v, a.v)}
}

// FMA returns x·a + b, rounded once.
func (x F32) FMA(a, b F32) F32 {
	return F32{kernel(x.v, a.v, b.v).compute(f32Class, "fma.rn.f32", x.v, a.v, b.v)}
}

// Div returns x/a, rounded once.
func (x F32) Div(a F32) F32 {
	return F32{kernel(x.v, a.v).compute(f32Class, "div.rn.f32", x.v, a.v)}
}

// Neg returns -x.
func (x F32) Neg() F32 {
	return F32{kernel(x.v).compute(f32Class, "neg.f32", x.v)}
}

// Abs returns |x|.
func (x F32) Abs() F32 {
	return F32{kernel(x.v).compute(f32Class, "abs.f32", x.v)}
}

// Min returns the smaller number, or the one that is not NaN.
func (x F32) Min(a F32) F32 {
	return F32{kernel(x.v, a.v).compute(f32Class, "min.f32", x.v, a.v)}
}

// Max returns the greater number, or the one that is not NaN.
func (x F32) Max(a F32) F32 {
	return F32{kernel(x.v, a.v).compute(f32Class, "max.f32", x.v, a.v)}
}

// Sqrt returns the square root, rounded once.
func (x F32) Sqrt() F32 {
	return F32{kernel(x.v).compute(f32Class, "sqrt.rn.f32", x.v)}
}

// Rcp returns 1/x, rounded once.
func (x F32) Rcp() F32 {
	return F32{kernel(x.v).compute(f32Class, "rcp.rn.f32", x.v)}
}

// Eq reports whether x = a, false for NaN.
func (x F32) Eq(a F32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.eq.f32", x.v, a.v)}
}

// Ne reports whether x ≠ a, true for NaN.
func (x F32) Ne(a F32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.neu.f32", x.v, a.v)}
}

// Lt reports whether x < a.
func (x F32) Lt(a F32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.lt.f32", x.v, a.v)}
}

// Le reports whether x ≤ a.
func (x F32) Le(a F32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.le.f32", x.v, a.v)}
}

// Gt reports whether x > a.
func (x F32) Gt(a F32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.gt.f32", x.v, a.v)}
}

// Ge reports whether x ≥ a.
func (x F32) Ge(a F32) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.ge.f32", x.v, a.v)}
}

// IsNaN reports whether x is NaN.
func (x F32) IsNaN() Pred {
	return Pred{kernel(x.v).compute(predClass, "setp.nan.f32", x.v, x.v)}
}

// Floor returns the greatest integer ≤ x.
func (x F32) Floor() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rmi.f32.f32", x.v)}
}

// Ceil returns the smallest integer ≥ x.
func (x F32) Ceil() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rpi.f32.f32", x.v)}
}

// Trunc returns x without its fraction.
func (x F32) Trunc() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rzi.f32.f32", x.v)}
}

// RoundEven returns the nearest integer, ties to even.
func (x F32) RoundEven() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rni.f32.f32", x.v)}
}

// S32 returns the nearest integer, ties to even. It saturates, and returns 0 for NaN.
func (x F32) S32() S32 {
	return S32{kernel(x.v).compute(b32Class, "cvt.rni.s32.f32", x.v)}
}

// Add returns x + a.
func (x F64) Add(a F64) F64 {
	return F64{kernel(x.v, a.v).compute(f64Class, "add.rn.f64", x.v, a.v)}
}

// Sub returns x - a.
func (x F64) Sub(a F64) F64 {
	return F64{kernel(x.v, a.v).compute(f64Class, "sub.rn.f64", x.v, a.v)}
}

// Mul returns x·a.
func (x F64) Mul(a F64) F64 {
	return F64{kernel(x.v, a.v).compute(f64Class, "mul.rn.f64", x.v, a.v)}
}

// FMA returns x·a + b, rounded once.
func (x F64) FMA(a, b F64) F64 {
	return F64{kernel(x.v, a.v, b.v).compute(f64Class, "fma.rn.f64", x.v, a.v, b.v)}
}

// Div returns x/a, rounded once.
func (x F64) Div(a F64) F64 {
	return F64{kernel(x.v, a.v).compute(f64Class, "div.rn.f64", x.v, a.v)}
}

// Neg returns -x.
func (x F64) Neg() F64 {
	return F64{kernel(x.v).compute(f64Class, "neg.f64", x.v)}
}

// Abs returns |x|.
func (x F64) Abs() F64 {
	return F64{kernel(x.v).compute(f64Class, "abs.f64", x.v)}
}

// Min returns the smaller number, or the one that is not NaN.
func (x F64) Min(a F64) F64 {
	return F64{kernel(x.v, a.v).compute(f64Class, "min.f64", x.v, a.v)}
}

// Max returns the greater number, or the one that is not NaN.
func (x F64) Max(a F64) F64 {
	return F64{kernel(x.v, a.v).compute(f64Class, "max.f64", x.v, a.v)}
}

// Sqrt returns the square root, rounded once.
func (x F64) Sqrt() F64 {
	return F64{kernel(x.v).compute(f64Class, "sqrt.rn.f64", x.v)}
}

// Rcp returns 1/x, rounded once.
func (x F64) Rcp() F64 {
	return F64{kernel(x.v).compute(f64Class, "rcp.rn.f64", x.v)}
}

// Eq reports whether x = a, false for NaN.
func (x F64) Eq(a F64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.eq.f64", x.v, a.v)}
}

// Ne reports whether x ≠ a, true for NaN.
func (x F64) Ne(a F64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.neu.f64", x.v, a.v)}
}

// Lt reports whether x < a.
func (x F64) Lt(a F64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.lt.f64", x.v, a.v)}
}

// Le reports whether x ≤ a.
func (x F64) Le(a F64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.le.f64", x.v, a.v)}
}

// Gt reports whether x > a.
func (x F64) Gt(a F64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.gt.f64", x.v, a.v)}
}

// Ge reports whether x ≥ a.
func (x F64) Ge(a F64) Pred {
	return Pred{kernel(x.v, a.v).compute(predClass, "setp.ge.f64", x.v, a.v)}
}

// IsNaN reports whether x is NaN.
func (x F64) IsNaN() Pred {
	return Pred{kernel(x.v).compute(predClass, "setp.nan.f64", x.v, x.v)}
}

// Floor returns the greatest integer ≤ x.
func (x F64) Floor() F64 {
	return F64{kernel(x.v).compute(f64Class, "cvt.rmi.f64.f64", x.v)}
}

// Ceil returns the smallest integer ≥ x.
func (x F64) Ceil() F64 {
	return F64{kernel(x.v).compute(f64Class, "cvt.rpi.f64.f64", x.v)}
}

// Trunc returns x without its fraction.
func (x F64) Trunc() F64 {
	return F64{kernel(x.v).compute(f64Class, "cvt.rzi.f64.f64", x.v)}
}

// RoundEven returns the nearest integer, ties to even.
func (x F64) RoundEven() F64 {
	return F64{kernel(x.v).compute(f64Class, "cvt.rni.f64.f64", x.v)}
}

// S32 returns the nearest integer, ties to even. It saturates, and returns 0 for NaN.
func (x F64) S32() S32 {
	return S32{kernel(x.v).compute(b32Class, "cvt.rni.s32.f64", x.v)}
}

// MinNaN returns the smaller number, or NaN if either is NaN.
func (x F32) MinNaN(a F32) F32 {
	return F32{kernel(x.v, a.v).compute(f32Class, "min.NaN.f32", x.v, a.v)}
}

// MaxNaN returns the greater number, or NaN if either is NaN.
func (x F32) MaxNaN(a F32) F32 {
	return F32{kernel(x.v, a.v).compute(f32Class, "max.NaN.f32", x.v, a.v)}
}

// Exp2Approx approximates 2 to the power of x, to 2 units in the last place.
func (x F32) Exp2Approx() F32 {
	return F32{kernel(x.v).compute(f32Class, "ex2.approx.f32", x.v)}
}

// Log2Approx approximates the binary logarithm, with an error of 2^-22 near 1.
func (x F32) Log2Approx() F32 {
	return F32{kernel(x.v).compute(f32Class, "lg2.approx.f32", x.v)}
}

// RsqrtApprox approximates 1/√x, with a relative error of 2^-22.4.
func (x F32) RsqrtApprox() F32 {
	return F32{kernel(x.v).compute(f32Class, "rsqrt.approx.f32", x.v)}
}

// RcpApprox approximates 1/x, to 1 unit in the last place.
func (x F32) RcpApprox() F32 {
	return F32{kernel(x.v).compute(f32Class, "rcp.approx.f32", x.v)}
}

// TanhApprox approximates tanh x, with a relative error of 2^-11.
func (x F32) TanhApprox() F32 {
	return F32{kernel(x.v).compute(f32Class, "tanh.approx.f32", x.v)}
}

// TF32 returns the nearest number with 10 fraction bits, ties away from 0, as tensor cores use it.
func (x F32) TF32() U32 {
	return U32{kernel(x.v).compute(b32Class, "cvt.rna.tf32.f32", x.v)}
}

// F64 returns x as float64.
func (x F32) F64() F64 {
	return F64{kernel(x.v).compute(f64Class, "cvt.f64.f32", x.v)}
}

// F32 returns the nearest float32.
func (x F64) F32() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rn.f32.f64", x.v)}
}

// BF16 returns the nearest bfloat16.
func (x F32) BF16() B16 {
	return B16{kernel(x.v).compute(b16Class, "cvt.rn.bf16.f32", x.v)}
}

// F16 returns the nearest float16.
func (x F32) F16() B16 {
	return B16{kernel(x.v).compute(b16Class, "cvt.rn.f16.f32", x.v)}
}

// TruncS64 returns x without its fraction, as a signed integer. x must be in its range.
func (x F32) TruncS64() U64 {
	return U64{kernel(x.v).compute(b64Class, "cvt.rzi.s64.f32", x.v)}
}

// TruncS64 returns x without its fraction, as a signed integer. x must be in its range.
func (x F64) TruncS64() U64 {
	return U64{kernel(x.v).compute(b64Class, "cvt.rzi.s64.f64", x.v)}
}

// TruncU64 returns x without its fraction. x must be in the integer's range.
func (x F64) TruncU64() U64 {
	return U64{kernel(x.v).compute(b64Class, "cvt.rzi.u64.f64", x.v)}
}

// F32Down returns x rounded to float32 towards 0.
func (x F64) F32Down() F32 {
	return F32{kernel(x.v).compute(f32Class, "cvt.rz.f32.f64", x.v)}
}

// Bits returns the 32 bits of x.
func (x F32) Bits() U32 {
	return U32{kernel(x.v).compute(b32Class, "mov.b32", x.v)}
}

// Bits returns the 64 bits of x.
func (x F64) Bits() U64 {
	return U64{kernel(x.v).compute(b64Class, "mov.b64", x.v)}
}

// Set changes x, which must come from VarF32.
func (x F32) Set(a F32) { x.v.k.emit("mov.f32", x.v, a.v) }

// Set changes x, which must come from VarF64.
func (x F64) Set(a F64) { x.v.k.emit("mov.f64", x.v, a.v) }
