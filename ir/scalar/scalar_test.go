package scalar

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// edges are numbers at which something may change, in pairs of signs.
var edges = func() []float64 {
	var out []float64
	for _, v := range []float64{0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-45, 1.2e-38, 6e-8, 6.1e-5, 1e-9,
		0.25, 0.5, 1, 1.5, 2, 2.5, 3, 5.5, 6, 17, 20, 88, 700, 709.5, 746, 65504, 65520, 16777217,
		1 << 53, 3.4e38, 1e300, math.MaxFloat64, math.Inf(1)} {
		out = append(out, v, -v)
	}
	return append(out, math.NaN())
}()

func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

// random makes an expression of n operations on three operands, with all operations that have any.
func random(r *rand.Rand, n int, ops []Op) Expr {
	pool := append(Inputs(3), Const(0), Const(math.Copysign(0, -1)), Const(1), Const(-1), Const(0.5), Const(2),
		Const(math.Inf(1)), Const(math.Inf(-1)), Const(math.NaN()))
	for range n {
		op := ops[r.IntN(len(ops))]
		var args []Expr
		for range op.Arity() {
			at := r.IntN(len(pool))
			if r.IntN(2) == 0 { // the newest expression
				at = len(pool) - 1 - r.IntN(min(4, len(pool)))
			}
			args = append(args, pool[at])
		}
		pool = append(pool, Apply(op, args...))
	}
	return pool[len(pool)-1]
}

func point(r *rand.Rand) []float64 {
	x := make([]float64, 3)
	for i := range x {
		if x[i] = edges[r.IntN(len(edges))]; r.IntN(2) == 0 {
			x[i] = r.NormFloat64() * 3
		}
	}
	return x
}

// TestEqualIsIdentical makes expressions in two ways.
func TestEqualIsIdentical(t *testing.T) {
	x, y := Input(0), Input(1)
	if Add(Exp(x), y) != Add(Exp(Input(0)), Input(1)) {
		t.Error("equal expressions differ")
	}
	for _, d := range [][2]Expr{{Add(x, y), Add(y, x)}, {x, y}, {Const(0), Const(math.Copysign(0, -1))},
		{Min(x, y), Max(x, y)}, {Input(0), Const(0)}} {
		if d[0] == d[1] {
			t.Errorf("%v and %v are one", d[0], d[1])
		}
	}
	if Const(math.NaN()) != Const(math.Float64frombits(0xfff8000000000123)) {
		t.Error("there are several NaN")
	}
	if (Expr{}).Valid() || !x.Valid() {
		t.Error("what is absent")
	}
}

// TestOps checks the table: every operation has a name of its own, and operands; functions end in primitives.
func TestOps(t *testing.T) {
	names := map[string]bool{}
	for _, op := range Ops() {
		if names[op.String()] || op.String() == "none" || op.Arity() < 1 || op.Arity() > MaxArgs || op.Cost() < 1 {
			t.Errorf("operation %d: name %q, %d operands, cost %d", op, op, op.Arity(), op.Cost())
		}
		names[op.String()] = true
		e := Apply(op, Inputs(op.Arity())...)
		if op.IsFunction() != e.Define().Valid() {
			t.Errorf("%v: definition %v", op, e.Define())
		}
		Walk(func(x Expr) {
			if x.Op().IsFunction() {
				t.Errorf("%v holds %v", op, x.Op())
			}
		}, Expand(e, nil))
		if kept := Expand(e, func(o Op) bool { return o == op }); kept != e {
			t.Errorf("%v was to be kept: %v", op, kept)
		}
	}
}

// TestPrimitives checks each primitive against Go's function, and its comment's word at special numbers.
func TestPrimitives(t *testing.T) {
	b := func(c bool) float64 {
		if c {
			return 1
		}
		return 0
	}
	want := map[Op]func(a, b, c float64) float64{
		OpAdd: func(x, y, _ float64) float64 { return x + y }, OpSub: func(x, y, _ float64) float64 { return x - y },
		OpMul: func(x, y, _ float64) float64 { return x * y }, OpDiv: func(x, y, _ float64) float64 { return x / y },
		OpFMA: math.FMA, OpMin: func(x, y, _ float64) float64 { return lesser(x, y) },
		OpMax:       func(x, y, _ float64) float64 { return -lesser(-x, -y) },
		OpMod:       func(x, y, _ float64) float64 { return math.Mod(x, y) },
		OpPow:       func(x, y, _ float64) float64 { return pow(x, y) },
		OpNeg:       func(x, _, _ float64) float64 { return math.Copysign(x, -math.Copysign(1, x)) },
		OpAbs:       func(x, _, _ float64) float64 { return math.Abs(x) },
		OpLess:      func(x, y, _ float64) float64 { return b(x < y) },
		OpLessEqual: func(x, y, _ float64) float64 { return b(x <= y) },
		OpEqual:     func(x, y, _ float64) float64 { return b(x == y) },
		OpSelect: func(c, x, y float64) float64 {
			if c != 0 {
				return x
			}
			return y
		},
		OpFloat32: func(x, _, _ float64) float64 { return float64(float32(x)) },
		OpFloat16: func(x, _, _ float64) float64 { return roundTo(x, 11, -14, 65504) },
		OpBFloat16: func(x, _, _ float64) float64 {
			return roundTo(x, 8, -126, math.Float64frombits(0x47efe00000000000))
		},
	}
	for op, f := range map[Op]func(float64) float64{OpSqrt: math.Sqrt, OpExp: math.Exp, OpExpm1: math.Expm1,
		OpLog: log, OpLog1p: math.Log1p, OpErf: math.Erf, OpErfc: math.Erfc,
		OpSin: math.Sin, OpCos: math.Cos, OpTan: math.Tan, OpAsin: math.Asin, OpAcos: math.Acos, OpAtan: math.Atan,
		OpSinh: math.Sinh, OpCosh: math.Cosh, OpTanh: math.Tanh,
		OpAsinh: math.Asinh, OpAcosh: math.Acosh, OpAtanh: math.Atanh, OpFloor: math.Floor, OpCeil: math.Ceil,
		OpRound: math.RoundToEven} {
		want[op] = func(x, _, _ float64) float64 { return f(x) }
	}
	for _, op := range Ops() {
		if op.IsFunction() {
			continue
		}
		f := want[op]
		if f == nil {
			t.Errorf("%v is not tested", op)
			continue
		}
		e := Apply(op, Inputs(op.Arity())...)
		for _, x := range edges {
			for _, y := range edges {
				for _, z := range []float64{0, 1, math.NaN(), -2.5} {
					if got, w := e.At(x, y, z), f(x, y, z); !same(got, w) {
						t.Fatalf("%v of %v, %v, %v: expected %v, found %v", op, x, y, z, w, got)
					}
				}
			}
		}
	}
	zero, inf, nan := math.Copysign(0, -1), math.Inf(1), math.NaN()
	for _, c := range []struct {
		e    Expr
		want float64
	}{
		{Min(Const(0), Const(zero)), zero}, {Max(Const(zero), Const(0)), 0}, {Min(Const(nan), Const(1)), nan},
		{Max(Const(1), Const(nan)), nan},
		{Mod(Const(-5.5), Const(2)), -1.5}, {Mod(Const(3), Const(inf)), 3}, {Mod(Const(inf), Const(3)), nan},
		{Mod(Const(1), Const(zero)), nan},
		{Pow(Const(nan), Const(zero)), 1}, {Pow(Const(1), Const(nan)), 1}, {Pow(Const(-1), Const(inf)), 1},
		{Pow(Const(zero), Const(3)), zero}, {Pow(Const(zero), Const(-3)), -inf},
		{Pow(Const(-8), Const(1.0/3)), nan}, {Sqrt(Const(zero)), zero}, {Log(Const(zero)), -inf},
		{Expm1(Const(zero)), zero}, {Log1p(Const(zero)), zero}, {Erf(Const(zero)), zero},
		{Tanh(Const(zero)), zero}, {Abs(Const(zero)), 0}, {Ceil(Const(-0.5)), zero}, {Round(Const(-0.5)), zero},
		{Floor(Const(zero)), zero}, {Round(Const(2.5)), 2},
		{Equal(Const(nan), Const(nan)), 0}, {LessEqual(Const(nan), Const(nan)), 0}, {Equal(Const(0), Const(zero)), 1},
		{Select(Const(zero), Const(1), Const(2)), 2}, {Select(Const(nan), Const(1), Const(2)), 1},
		{IsNaN(Const(nan)), 1}, {IsNaN(Const(inf)), 0}, {IsInf(Const(-inf), -1), 1}, {IsInf(Const(-inf), 1), 0},
		{Greater(Const(2), Const(1)), 1}, {GreaterEqual(Const(1), Const(nan)), 0},
		{Not(Const(0)), 1}, {And(Const(1), Const(0)), 0}, {Or(Const(0), Const(1)), 1}, {Xor(Const(1), Const(1)), 0},
		{Xor(Const(0), Const(1)), 1},
		{Relu(Const(zero)), zero}, {Relu(Const(nan)), nan}, {Sign(Const(zero)), zero}, {Sign(Const(nan)), nan},
		{Sign(Const(-3)), -1}, {ThresholdedRelu(Const(nan), Const(0)), 0},
		{Shrink(Const(nan), Const(1), Const(1)), 0}, {Swish(Const(-inf), Const(1)), nan}, {Gelu(Const(-inf)), nan},
		{Mish(Const(-inf)), nan}, {HardSwish(Const(-inf)), nan}, {Softsign(Const(inf)), nan},
		{FloorMod(Const(-5.5), Const(2)), 0.5}, {FloorMod(Const(5.5), Const(-2)), -0.5},
		{FloorMod(Const(4), Const(-2)), 0}, {FMA(Const(1+0x1p-30), Const(1-0x1p-30), Const(-1)), -0x1p-60},
	} {
		if got := c.e.At(); !same(got, c.want) {
			t.Errorf("%v: expected %v, found %v", c.e, c.want, got)
		}
	}
	if got := Softplus(Const(-40)).At(); math.Abs(got/math.Exp(-40)-1) > 1e-15 {
		t.Errorf("softplus(-40): %v", got)
	}
	if got := Gelu(Const(-8)).At(); math.Abs(got/(-8*0.5*math.Erfc(8/math.Sqrt2))-1) > 1e-13 || got == 0 {
		t.Errorf("gelu(-8): %v", got)
	}
}

func lesser(x, y float64) float64 {
	switch {
	case x != x || y != y:
		return math.NaN()
	case x < y || x == y && math.Signbit(x):
		return x
	}
	return y
}

// roundTo rounds to numbers of so many bits whose least normal exponent is low.
func roundTo(x float64, bits, low int, largest float64) float64 {
	if x == 0 || math.IsInf(x, 0) || x != x {
		return x
	}
	_, e := math.Frexp(x)
	unit := math.Ldexp(1, max(e-1, low)-bits+1)
	if unit == 0 {
		return math.Copysign(0, x)
	}
	y := math.RoundToEven(x/unit) * unit
	if math.Abs(y) > largest {
		return math.Copysign(math.Inf(1), x)
	}
	return y
}

// TestSimplify compares simplified expressions with their originals, bit by bit.
func TestSimplify(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	fewer := 0
	for range 4000 {
		e := random(r, 1+r.IntN(9), Ops())
		s := Simplify(e)
		if s.Cost() > e.Cost() {
			t.Fatalf("%v has become %v", e, s)
		}
		if s.Cost() < e.Cost() {
			fewer++
		}
		for range 30 {
			x := point(r)
			if a, b := e.At(x...), s.At(x...); !same(a, b) {
				t.Fatalf("%v at %v is %v; as %v it is %v", e, x, a, s, b)
			}
		}
	}
	if fewer < 400 {
		t.Errorf("only %d expressions have become simpler", fewer)
	}
	x, y := Input(0), Input(1)
	for _, c := range [][2]Expr{
		{Mul(Const(2), Const(3)), Const(6)}, {Add(x, Const(0)), Add(x, Const(0))}, {Sub(x, Const(0)), x},
		{Mul(x, Const(1)), x}, {Neg(Neg(x)), x}, {Abs(Neg(Abs(x))), Abs(x)},
		{Clip(x, Const(math.Inf(-1)), Const(math.Inf(1))), Clip(x, Const(math.Inf(-1)), Const(math.Inf(1)))},
		{Min(Max(x, Const(math.Inf(-1))), Const(math.Inf(1))), x},
		{Add(x, Neg(y)), Sub(x, y)}, {Select(Const(1), x, y), x}, {Select(Less(x, y), x, x), x}, {Sub(x, x), Sub(x, x)},
		{Equal(x, x), Equal(x, x)}, {Pow(x, Const(1)), x},
		{Float32(Float16(x)), Float16(x)}, {Float16(Float32(x)), Float16(Float32(x))},
	} {
		if got := Simplify(c[0]); got != c[1] {
			t.Errorf("%v: expected %v, found %v", c[0], c[1], got)
		}
	}
}

// TestWith composes.
func TestWith(t *testing.T) {
	x, y := Input(0), Input(1)
	e := Sub(Gelu(x), Mul(y, x)).With(Exp(y), x)
	if want := Sub(Gelu(Exp(y)), Mul(x, Exp(y))); e != want {
		t.Errorf("expected %v, found %v", want, e)
	}
	if r := Add(Input(4), Mul(x, Input(4))).Reads(); !slices.Equal(r, []int{0, 4}) {
		t.Errorf("reads %v", r)
	}
}

// TestHoist takes out what depends on operands that vary less.
func TestHoist(t *testing.T) {
	in := Inputs(5)
	x, w, b, mean, v := in[0], in[1], in[2], in[3], in[4]
	scale := Div(w, Sqrt(Add(v, Const(1e-5))))
	e := Add(Mul(scale, x), Sub(b, Mul(mean, scale)))
	rest, hoisted := Hoist(e, 5, func(reads []int) bool { return !slices.Contains(reads, 0) })
	if want := Add(Mul(Input(5), x), Input(6)); rest != want {
		t.Errorf("expected %v, found %v", want, rest)
	}
	if !slices.Equal(hoisted, []Expr{scale, Sub(b, Mul(mean, scale))}) {
		t.Errorf("hoisted %v", hoisted)
	}
	rest, hoisted = Hoist(Add(x, w), 2, func(reads []int) bool { return len(reads) == 1 })
	if rest != Add(x, w) || hoisted != nil {
		t.Errorf("%v with %v", rest, hoisted)
	}
}

// TestString spells expressions.
func TestString(t *testing.T) {
	x, y, z := Input(0), Input(1), Input(2)
	e := Exp(Neg(x))
	for _, c := range []struct {
		e    Expr
		want string
	}{
		{Expr{}, "none"}, {Add(x, Mul(y, z)), "x0 + x1*x2"}, {Mul(Add(x, y), z), "(x0 + x1)*x2"},
		{Sub(x, Sub(y, z)), "x0 - (x1 - x2)"}, {Sub(Sub(x, y), z), "x0 - x1 - x2"},
		{Div(x, Mul(y, z)), "x0/(x1*x2)"}, {Mul(Const(-2), x), "(-2)*x0"}, {Mul(Neg(x), y), "(-x0)*x1"},
		{Select(Less(x, Const(0)), Const(0), x), "select(x0 < 0, 0, x0)"},
		{Div(e, Add(e, Const(1))), "t0 = exp(-x0); t0/(t0 + 1)"}, {Swish(x, Const(1.5)), "swish(x0, 1.5)"},
		{Equal(Less(x, y), Less(y, x)), "(x0 < x1) == (x1 < x0)"}, {Const(math.Inf(-1)), "-Inf"},
	} {
		if got := c.e.String(); got != c.want {
			t.Errorf("expected %s, found %s", c.want, got)
		}
	}
	// Sharing keeps the text of what doubles at each step short.
	d := x
	for range 200 {
		d = Add(d, d)
	}
	if n := len(d.String()); n > 10000 || !strings.HasPrefix(d.String(), "t0 = x0 + x0; t1 = t0 + t0; ") {
		t.Errorf("%d characters", n)
	}
	if d.Cost() != 200 || d.At(1) != math.Ldexp(1, 200) || Simplify(d) != d {
		t.Error("what is shared is not computed once")
	}
}

// TestMisuse panics with a message.
func TestMisuse(t *testing.T) {
	for name, f := range map[string]func(){
		"Input": func() { Input(-1) }, "Apply: absent": func() { Add(Input(0), Expr{}) },
		"Apply: number": func() { Apply(OpAdd, Input(0)) }, "Apply: leaf": func() { Apply(OpConst) },
		"With":       func() { Input(0).With(Expr{}) },
		"NewMachine": func() { NewMachine(Linearize(func(Op) bool { return true }, Gelu(Input(0))), 1) },
	} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "scalar.") {
					t.Errorf("%s: no message", name)
				}
			}()
			f()
		}()
	}
}

// TestSubnormal checks logarithms and powers of subnormal numbers, which math.Log and math.Pow of amd64 get wrong.
func TestSubnormal(t *testing.T) {
	x, y := Input(0), Input(1)
	for _, c := range []struct {
		e          Expr
		x, y, want float64
	}{
		{Log(x), 1e-310, 0, -713.80137882815406}, {Log(x), 5e-324, 0, -744.44007192138122}, {Log(x), 2.3e-308, 0, -708.36329951923102},
		{Pow(x, y), 1e-310, -0.88422425859936449, 1.2868270034950e274}, {Pow(x, y), 1e-310, 0.3, 1e-93},
		{Pow(x, y), 1e-310, 2, 0}, {Pow(x, y), 1e-310, -1, math.Inf(1)}, {Pow(x, y), 1e-310, 0, 1}, {Pow(x, y), -1e-310, 3, 0},
	} {
		if got := c.e.At(c.x, c.y); got != c.want && !(math.Abs(got-c.want) <= 1e-12*math.Abs(c.want)) {
			t.Errorf("%v of %v, %v: found %v, expected %v", c.e, c.x, c.y, got, c.want)
		}
	}
}
