package elementwise

import (
	"math"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// operation holds the functions that compute an operation of expressions on float32. An operation of several operands
// may have several forms, for constant operands.
type operation struct {
	// step is the operation as a step of a fused kernel, and exchanged the step with its two operands exchanged;
	// record.NoStep if there is none.
	step, exchanged kernel.FusedOp
	of1             func(k []float64) func(y, x []float32) // of one operand, and parameters
	// parameters returns the parameters of of1 and step from the constants after the operand; nil if they are these.
	parameters func(k []float64) []float64
	of2        *record.Arithmetic
	of3        func(y, a, b, c []float32)
	bound
}

// bound is the accuracy of results: they differ from the float64 results by at most ulps units in the last place, or
// by loss·max(1, |x|). If ulps is not 0, results may also differ by 1.2e-38·max(1, |x|), about the smallest normal
// number, and be infinite above 3.39e38.
type bound struct{ ulps, loss float64 }

// operations holds the entries of all tables below.
var operations = map[scalar.Op]*operation{}

// functions are operations of one operand with a function in package kernel.
var functions = []struct {
	op   scalar.Op
	step kernel.FusedOp
	f    func(y, x []float32)
	bound
}{
	{scalar.OpNeg, kernel.FusedNeg, kernel.Neg, bound{}},
	{scalar.OpAbs, kernel.FusedAbs, kernel.Abs, bound{}},
	{scalar.OpSqrt, kernel.FusedSqrt, kernel.Sqrt, bound{0.5, 0}},
	{scalar.OpExp, kernel.FusedExp, kernel.Exp, bound{2, 0}},
	{scalar.OpExpm1, record.NoStep, kernel.Expm1, bound{2.1, 0}},
	{scalar.OpLog, record.NoStep, kernel.Log, bound{0.5, 0}},
	{scalar.OpErf, kernel.FusedErf, kernel.Erf, bound{6, 0}},
	{scalar.OpTanh, kernel.FusedTanh, kernel.Tanh, bound{8, 0}},
	{scalar.OpSin, record.NoStep, kernel.Sin, bound{0.5, 0}},
	{scalar.OpCos, record.NoStep, kernel.Cos, bound{0.5, 0}},
	{scalar.OpTan, record.NoStep, kernel.Tan, bound{0.5, 0}},
	{scalar.OpSign, record.NoStep, kernel.Sign, bound{}},
	{scalar.OpFloor, kernel.FusedFloor, kernel.Floor, bound{}},
	{scalar.OpCeil, kernel.FusedCeil, kernel.Ceil, bound{}},
	{scalar.OpRound, kernel.FusedRound, kernel.Round, bound{}},
	{scalar.OpFloat32, record.NoStep, copied, bound{}},
	{scalar.OpFloat16, kernel.FusedFloat16, kernel.Float16, bound{}},
	{scalar.OpBFloat16, kernel.FusedBFloat16, kernel.BFloat16, bound{}},
	{scalar.OpRelu, kernel.FusedRelu, kernel.Relu, bound{}},
	{scalar.OpSigmoid, kernel.FusedSigmoid, kernel.Sigmoid, bound{5, 0}},
	{scalar.OpHardSwish, kernel.FusedHardSwish, kernel.HardSwish, bound{3, 6e-8}},
	{scalar.OpGelu, kernel.FusedGelu, kernel.Gelu, bound{1, 2.2e-7}},
	{scalar.OpGeluTanh, kernel.FusedGeluTanh, kernel.GeluTanh, bound{4, 1e-7}},
	{scalar.OpSoftplus, kernel.FusedSoftplus, kernel.Softplus, bound{2, 0}},
	{scalar.OpMish, kernel.FusedMish, kernel.Mish, bound{4.1, 0}},
}

// functions1 and functions2 are functions with one and two constant parameters.
var functions1 = []struct {
	op   scalar.Op
	step kernel.FusedOp
	f    func(y, x []float32, k float32)
	bound
}{
	{scalar.OpLeakyRelu, kernel.FusedLeakyRelu, kernel.LeakyRelu, bound{0.5, 0}},
	{scalar.OpThresholdedRelu, kernel.FusedThresholdedRelu, kernel.ThresholdedRelu, bound{}},
}

var functions2 = []struct {
	op         scalar.Op
	step       kernel.FusedOp
	f          func(y, x []float32, k, l float32)
	parameters func(k []float64) []float64
	bound
}{
	{scalar.OpClip, kernel.FusedClip, kernel.Clip, nil, bound{}},
	{scalar.OpShrink, kernel.FusedShrink, kernel.Shrink, nil, bound{0.5, 0}},
	{scalar.OpHardSigmoid, kernel.FusedHardSigmoid, kernel.HardSigmoid, nil, bound{1, 6e-8}},
	{scalar.OpElu, kernel.FusedElu, kernel.Elu, func(k []float64) []float64 { return []float64{k[0], 1} }, bound{2, 0}},
	{scalar.OpSelu, kernel.FusedElu, kernel.Elu,
		func(k []float64) []float64 { return []float64{k[1] * k[0], k[1]} }, bound{3, 0}},
}

// in64 are functions without vector instructions. They are computed in float64 and rounded once.
var in64 = []oneIn64{
	{scalar.OpLog1p, math.Log1p}, {scalar.OpErfc, math.Erfc},
	{scalar.OpAsin, math.Asin}, {scalar.OpAcos, math.Acos}, {scalar.OpAtan, math.Atan},
	{scalar.OpSinh, math.Sinh}, {scalar.OpCosh, math.Cosh},
	{scalar.OpAsinh, math.Asinh}, {scalar.OpAcosh, math.Acosh}, {scalar.OpAtanh, math.Atanh},
}

type oneIn64 struct {
	op scalar.Op
	f  func(x float64) float64
}

// arithmetics are operations of two operands.
var arithmetics = []struct {
	op              scalar.Op
	step, exchanged kernel.FusedOp
	record.Arithmetic
}{
	{scalar.OpAdd, kernel.FusedAdd, kernel.FusedAdd,
		record.Arithmetic{Rows: kernel.Add, Right: kernel.AddS, Left: kernel.AddS}},
	{scalar.OpSub, kernel.FusedSub, kernel.FusedSubFrom,
		record.Arithmetic{Rows: kernel.Sub, Right: kernel.SubS, Left: kernel.SubFromS}},
	{scalar.OpMul, kernel.FusedMul, kernel.FusedMul,
		record.Arithmetic{Rows: kernel.Mul, Right: kernel.MulS, Left: kernel.MulS}},
	{scalar.OpDiv, kernel.FusedDiv, kernel.FusedDivInto,
		record.Arithmetic{Rows: kernel.Div, Right: kernel.DivS, Left: kernel.DivIntoS}},
	{scalar.OpMin, kernel.FusedMin, kernel.FusedMin,
		record.Arithmetic{Rows: kernel.Min, Right: kernel.MinS, Left: kernel.MinS}},
	{scalar.OpMax, kernel.FusedMax, kernel.FusedMax,
		record.Arithmetic{Rows: kernel.Max, Right: kernel.MaxS, Left: kernel.MaxS}},
}

// pairs are operations of two operands without vector instructions. They are computed in float64 and rounded once.
var pairs = []struct {
	op scalar.Op
	f  func(a, b float64) float64
}{
	{scalar.OpMod, math.Mod}, {scalar.OpPow, power},
	{scalar.OpLess, func(a, b float64) float64 { return truth(a < b) }},
	{scalar.OpLessEqual, func(a, b float64) float64 { return truth(a <= b) }},
	{scalar.OpEqual, func(a, b float64) float64 { return truth(a == b) }},
	{scalar.OpLeakyRelu, func(x, slope float64) float64 {
		if x < 0 {
			return x * slope
		}
		return x
	}},
}

// powers are the powers with a constant exponent that have a kernel.
var powers = map[float64]*operation{
	1:   function(record.NoStep, copied, bound{}),
	2:   function(kernel.FusedSquare, kernel.Square, bound{0.5, 0}),
	3:   function(record.NoStep, kernel.Cube, bound{0.5, 0}),
	4:   function(record.NoStep, fourthPower, bound{0.5, 0}),
	0.5: function(record.NoStep, powerOfHalf, bound{0.5, 0}),
}

// powerOfHalf sets y = x to the power of one half, as C's and numpy's pow: unlike the square root it is 0 for -0, and ∞
// for -∞.
func powerOfHalf(y, x []float32) {
	for len(x) > 0 { // in blocks, since y may be x
		var low [64]bool
		n := min(len(x), len(low))
		some := false
		for i, v := range x[:n] {
			low[i] = v < -math.MaxFloat32
			some = some || low[i]
		}
		kernel.AddS(y[:n], x[:n], 0)
		kernel.Sqrt(y[:n], y[:n])
		if some {
			for i, is := range low[:n] {
				if is {
					y[i] = float32(math.Inf(1))
				}
			}
		}
		y, x = y[n:], x[n:]
	}
}

func init() {
	for _, e := range functions {
		operations[e.op] = function(e.step, e.f, e.bound)
	}
	for _, e := range in64 {
		operations[e.op] = function(record.NoStep, func(y, x []float32) {
			for i, v := range x {
				y[i] = float32(e.f(float64(v)))
			}
		}, bound{0.5, 0})
	}
	for _, e := range functions1 {
		operations[e.op] = &operation{step: e.step, bound: e.bound, of1: func(k []float64) func(y, x []float32) {
			a := float32(k[0])
			return func(y, x []float32) { e.f(y, x, a) }
		}}
	}
	for _, e := range functions2 {
		operations[e.op] = &operation{step: e.step, bound: e.bound, parameters: e.parameters,
			of1: func(k []float64) func(y, x []float32) {
				a, b := float32(k[0]), float32(k[1])
				return func(y, x []float32) { e.f(y, x, a, b) }
			}}
	}
	for i := range arithmetics {
		e := &arithmetics[i]
		operations[e.op] = &operation{step: e.step, exchanged: e.exchanged, bound: bound{0.5, 0}, of2: &e.Arithmetic}
	}
	for _, e := range pairs {
		if operations[e.op] == nil {
			operations[e.op] = &operation{bound: bound{0.5, 0}}
		}
		operations[e.op].of2 = pair(e.f)
	}
	operations[scalar.OpLeakyRelu].of2.Right = kernel.LeakyRelu
	operations[scalar.OpSwish] = &operation{step: kernel.FusedSwish, bound: bound{80, 0},
		of1: func(k []float64) func(y, x []float32) {
			alpha := k[0]
			return func(y, x []float32) { kernel.Swish(y, x, alpha) }
		}}
	operations[scalar.OpFMA] = &operation{bound: bound{0.5, 0}, of3: fma}
	operations[scalar.OpSelect] = &operation{of3: selected}
}

// function returns an operation of one operand without parameters.
func function(step kernel.FusedOp, f func(y, x []float32), b bound) *operation {
	return &operation{step: step, bound: b, of1: func([]float64) func(y, x []float32) { return f }}
}

// pair returns a function of two operands, computed in float64.
func pair(f func(a, b float64) float64) *record.Arithmetic {
	return &record.Arithmetic{
		Rows: func(y, a, b []float32) {
			for i, x := range a[:len(y)] {
				y[i] = float32(f(float64(x), float64(b[i])))
			}
		},
		Right: func(y, a []float32, s float32) {
			for i, x := range a[:len(y)] {
				y[i] = float32(f(float64(x), float64(s)))
			}
		},
		Left: func(y, b []float32, s float32) {
			for i, x := range b[:len(y)] {
				y[i] = float32(f(float64(s), float64(x)))
			}
		},
	}
}

func copied(y, x []float32) { copy(y, x) }

func fma(y, a, b, c []float32) {
	for i := range y {
		y[i] = float32(math.FMA(float64(a[i]), float64(b[i]), float64(c[i])))
	}
}

func selected(y, c, a, b []float32) {
	for i := range y {
		take := -bit(c[i] != 0) // all bits or none: a branch would be mispredicted half of the time
		y[i] = math.Float32frombits(math.Float32bits(a[i])&take | math.Float32bits(b[i])&^take)
	}
}

func truth(c bool) float64 { return float64(bit(c)) }

// bit returns 1 if c holds, and 0 otherwise. It compiles to no branch.
func bit(c bool) uint32 {
	var b uint8
	if c {
		b = 1
	}
	return uint32(b)
}
