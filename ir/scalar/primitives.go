package scalar

import "math"

func init() {
	for op, i := range map[Op]info{
		OpInput: {name: "input"}, OpConst: {name: "const"},
		OpAdd: {"add", 2, 1, nil, deriveAdd}, OpSub: {"sub", 2, 1, nil, deriveSub},
		OpMul: {"mul", 2, 1, nil, deriveMul},
		OpDiv: {"div", 2, 4, nil, deriveDiv}, OpFMA: {"fma", 3, 2, nil, deriveFMA},
		OpMin: {"min", 2, 1, nil, deriveMin},
		OpMax: {"max", 2, 1, nil, deriveMax}, OpMod: {"mod", 2, 20, nil, deriveMod},
		OpPow: {"pow", 2, 40, nil, derivePow},
		OpNeg: {"neg", 1, 1, nil, deriveNeg}, OpAbs: {"abs", 1, 1, nil, deriveAbs},
		OpSqrt: {"sqrt", 1, 4, nil, deriveSqrt},
		OpExp:  {"exp", 1, 20, nil, deriveExp}, OpExpm1: {"expm1", 1, 20, nil, deriveExpm1},
		OpLog: {"log", 1, 20, nil, deriveLog}, OpLog1p: {"log1p", 1, 20, nil, deriveLog1p},
		OpErf: {"erf", 1, 20, nil, deriveErf}, OpErfc: {"erfc", 1, 20, nil, deriveErfc},
		OpSin: {"sin", 1, 20, nil, deriveSin}, OpCos: {"cos", 1, 20, nil, deriveCos},
		OpTan:  {"tan", 1, 20, nil, deriveTan},
		OpAsin: {"asin", 1, 20, nil, deriveAsin}, OpAcos: {"acos", 1, 20, nil, deriveAcos},
		OpAtan: {"atan", 1, 20, nil, deriveAtan},
		OpSinh: {"sinh", 1, 20, nil, deriveSinh}, OpCosh: {"cosh", 1, 20, nil, deriveCosh},
		OpTanh:  {"tanh", 1, 20, nil, deriveTanh},
		OpAsinh: {"asinh", 1, 20, nil, deriveAsinh}, OpAcosh: {"acosh", 1, 20, nil, deriveAcosh},
		OpAtanh: {"atanh", 1, 20, nil, deriveAtanh},
		OpFloor: {"floor", 1, 1, nil, flat}, OpCeil: {"ceil", 1, 1, nil, flat}, OpRound: {"round", 1, 1, nil, flat},
		OpLess: {"less", 2, 1, nil, flat}, OpLessEqual: {"lessequal", 2, 1, nil, flat},
		OpEqual:   {"equal", 2, 1, nil, flat},
		OpSelect:  {"select", 3, 1, nil, nil},
		OpFloat32: {"float32", 1, 1, nil, through}, OpFloat16: {"float16", 1, 1, nil, through},
		OpBFloat16: {"bfloat16", 1, 1, nil, through},
	} {
		infos[op] = i
	}
}

// Arithmetic follows IEEE 754, infinities and -0 included.

// Add is a + b.
func Add(a, b Expr) Expr { return Apply(OpAdd, a, b) }

// Sub is a - b.
func Sub(a, b Expr) Expr { return Apply(OpSub, a, b) }

// Mul is a·b.
func Mul(a, b Expr) Expr { return Apply(OpMul, a, b) }

// Div is a/b. A finite number by ±0 is an infinity; 0/0 and ∞/∞ are NaN.
func Div(a, b Expr) Expr { return Apply(OpDiv, a, b) }

// FMA is a·b + c, rounded once.
func FMA(a, b, c Expr) Expr { return Apply(OpFMA, a, b, c) }

// Neg is -a. Neg of 0 is -0.
func Neg(a Expr) Expr { return Apply(OpNeg, a) }

// Abs is |a|. Abs of -0 is 0.
func Abs(a Expr) Expr { return Apply(OpAbs, a) }

// Min is the lesser of both, NaN where either is; -0 is less than 0.
func Min(a, b Expr) Expr { return Apply(OpMin, a, b) }

// Max is the greater of both, NaN where either is; 0 is greater than -0.
func Max(a, b Expr) Expr { return Apply(OpMax, a, b) }

// Mod is the remainder of a/b with the sign of a, as C's fmod: NaN for infinite a and for b = ±0, and a for infinite b.
func Mod(a, b Expr) Expr { return Apply(OpMod, a, b) }

// Pow is a to the power of b, as C's pow. It is 1 for b = ±0 and for a = 1, even if the other operand is NaN, and for
// a = -1 and b = ±∞. It is NaN for finite a < 0 and finite b that is not an integer. For a = ±0 it is ±∞ if b is a
// negative odd integer, ∞ for other b < 0, ±0 if b is a positive odd integer, and 0 for other b > 0.
func Pow(a, b Expr) Expr { return Apply(OpPow, a, b) }

// Sqrt is the square root, NaN below zero. Sqrt of -0 is -0.
func Sqrt(a Expr) Expr { return Apply(OpSqrt, a) }

// Exp is e to the power of a: 0 for -∞, ∞ for ∞.
func Exp(a Expr) Expr { return Apply(OpExp, a) }

// Expm1 is e to the power of a, less 1, without loss near zero: -1 for -∞; ±0 for ±0.
func Expm1(a Expr) Expr { return Apply(OpExpm1, a) }

// Log is the natural logarithm: NaN below zero, -∞ for ±0.
func Log(a Expr) Expr { return Apply(OpLog, a) }

// Log1p is the natural logarithm of 1 + a, without loss near zero: NaN below -1, -∞ for -1; ±0 for ±0.
func Log1p(a Expr) Expr { return Apply(OpLog1p, a) }

// Erf is the error function: ±1 for ±∞; ±0 for ±0.
func Erf(a Expr) Expr { return Apply(OpErf, a) }

// Erfc is 1 less the error function, without loss in its tail: 2 for -∞, 0 for ∞.
func Erfc(a Expr) Expr { return Apply(OpErfc, a) }

// Trigonometric functions are in radians. For infinities they are NaN; sine, tangent and their inverses of ±0 are
// ±0.

// Sin is the sine.
func Sin(a Expr) Expr { return Apply(OpSin, a) }

// Cos is the cosine.
func Cos(a Expr) Expr { return Apply(OpCos, a) }

// Tan is the tangent.
func Tan(a Expr) Expr { return Apply(OpTan, a) }

// Asin is the arcsine, NaN outside of [-1, 1].
func Asin(a Expr) Expr { return Apply(OpAsin, a) }

// Acos is the arccosine, NaN outside of [-1, 1].
func Acos(a Expr) Expr { return Apply(OpAcos, a) }

// Atan is the arctangent: ±π/2 for ±∞.
func Atan(a Expr) Expr { return Apply(OpAtan, a) }

// Sinh is the hyperbolic sine: ±∞ for ±∞; ±0 for ±0.
func Sinh(a Expr) Expr { return Apply(OpSinh, a) }

// Cosh is the hyperbolic cosine: ∞ for ±∞.
func Cosh(a Expr) Expr { return Apply(OpCosh, a) }

// Tanh is the hyperbolic tangent: ±1 for ±∞; ±0 for ±0.
func Tanh(a Expr) Expr { return Apply(OpTanh, a) }

// Asinh is the inverse hyperbolic sine: ±∞ for ±∞; ±0 for ±0.
func Asinh(a Expr) Expr { return Apply(OpAsinh, a) }

// Acosh is the inverse hyperbolic cosine: NaN below 1, ∞ for ∞.
func Acosh(a Expr) Expr { return Apply(OpAcosh, a) }

// Atanh is the inverse hyperbolic tangent: NaN outside of [-1, 1], ±∞ for ±1; ±0 for ±0.
func Atanh(a Expr) Expr { return Apply(OpAtanh, a) }

// Rounding to integers keeps infinities, and the sign of results that are zero.

// Floor is the greatest integer not above a.
func Floor(a Expr) Expr { return Apply(OpFloor, a) }

// Ceil is the smallest integer ≥ a.
func Ceil(a Expr) Expr { return Apply(OpCeil, a) }

// Round is the integer nearest to a, halves to even.
func Round(a Expr) Expr { return Apply(OpRound, a) }

// Comparisons are 1 or 0. All of them are 0 if an operand is NaN. 0 and -0 are equal.

// Less is whether a < b.
func Less(a, b Expr) Expr { return Apply(OpLess, a, b) }

// LessEqual is whether a ≤ b.
func LessEqual(a, b Expr) Expr { return Apply(OpLessEqual, a, b) }

// Equal is whether a = b. Equal(a, a) is 0 if a is NaN.
func Equal(a, b Expr) Expr { return Apply(OpEqual, a, b) }

// Select is b if c is 0 or -0, and a otherwise, also if c is NaN. A NaN that is not selected has no effect.
func Select(c, a, b Expr) Expr { return Apply(OpSelect, c, a, b) }

// Rounding to a smaller type is to nearest even; it overflows to infinity, and underflows to denormal numbers and ±0.
// An operator on a smaller type rounds its result once. In a composition of operators these operations do that between
// them.

// Float32 is the nearest number of type float32.
func Float32(a Expr) Expr { return Apply(OpFloat32, a) }

// Float16 is the nearest number of type float16.
func Float16(a Expr) Expr { return Apply(OpFloat16, a) }

// BFloat16 is the nearest number of type bfloat16.
func BFloat16(a Expr) Expr { return Apply(OpBFloat16, a) }

// The rest are shorthands in terms of other operations.

// Greater is whether a > b.
func Greater(a, b Expr) Expr { return Less(b, a) }

// GreaterEqual is whether a ≥ b.
func GreaterEqual(a, b Expr) Expr { return LessEqual(b, a) }

// Not is 1 where c is 0, and 0 elsewhere.
func Not(c Expr) Expr { return Select(c, Const(0), Const(1)) }

// And is whether truth values both hold.
func And(c, d Expr) Expr { return Select(c, d, Const(0)) }

// Or is whether either of two truth values holds.
func Or(c, d Expr) Expr { return Select(c, Const(1), d) }

// Xor is whether exactly one of two truth values holds.
func Xor(c, d Expr) Expr { return Select(c, Not(d), d) }

// IsNaN is whether a is NaN.
func IsNaN(a Expr) Expr { return Not(Equal(a, a)) }

// IsInf is whether a is infinite with the given sign.
func IsInf(a Expr, sign int) Expr { return Equal(a, Const(math.Inf(sign))) }

// Reciprocal is 1/a.
func Reciprocal(a Expr) Expr { return Div(Const(1), a) }
