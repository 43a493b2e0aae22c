package scalar

import (
	"math"
	"math/rand/v2"
	"testing"
)

// domains are where operations are smooth enough for differences, by operand; the others take numbers in (-2, 2).
var domains = map[Op][][2]float64{
	OpLog: {{0.2, 3}}, OpLog1p: {{-0.8, 2}}, OpSqrt: {{0.1, 3}}, OpAsin: {{-0.9, 0.9}}, OpAcos: {{-0.9, 0.9}},
	OpAtanh: {{-0.9, 0.9}}, OpAcosh: {{1.1, 3}}, OpTan: {{-1.2, 1.2}},
	OpPow: {{0.2, 2}, {-2, 3}}, OpDiv: {{-2, 2}, {0.5, 2}}, OpMod: {{3.1, 3.9}, {1.2, 1.5}}, OpFloorMod: {{-3.9, -3.1},
		{1.2, 1.5}}, OpCelu: {{-2, 2}, {0.5, 2}},
}

// TestDerivative checks the rule of every operation, and that of compositions, against differences.
func TestDerivative(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, op := range Ops() {
		switch op {
		case OpFloat32, OpFloat16, OpBFloat16: // steps, which count as straight
			if d := Derivative(Apply(op, Exp(Input(0))), 0); d != Exp(Input(0)) {
				t.Errorf("%v: %v", op, d)
			}
			continue
		}
		e := Apply(op, Inputs(op.Arity())...)
		for i := range op.Arity() {
			d := Derivative(e, i)
			for range 200 {
				x := []float64{0, 0, 0}
				for k := range x {
					lo, hi := -2.0, 2.0
					if w := domains[op]; k < len(w) {
						lo, hi = w[k][0], w[k][1]
					}
					x[k] = lo + (hi-lo)*r.Float64()
				}
				if op == OpSelect {
					x[0] = float64(r.IntN(2))
					if i == 0 {
						continue
					}
				}
				compareSlope(t, e, d, i, x)
			}
		}
	}
	x, y := Input(0), Input(1)
	for _, e := range []Expr{Mul(Sin(Mul(x, y)), Exp(Neg(x))), Gelu(Add(Mul(x, x), y)), Softplus(Swish(x, y)),
		Div(Mish(x), Add(Const(3), Tanh(y))), Select(Less(x, y), Mul(x, x), Mul(y, x)), Add(x, Mul(x, x))} {
		for i := range 2 {
			d := Derivative(e, i)
			for range 100 {
				compareSlope(t, e, d, i, []float64{r.Float64()*4 - 2, r.Float64()*4 - 2})
			}
		}
	}
}

// compareSlope leaves out points with a kink close by, where differences to both sides disagree.
func compareSlope(t *testing.T, e, d Expr, i int, x []float64) {
	t.Helper()
	const h = 1e-5
	at := func(by float64) float64 {
		y := append([]float64(nil), x...)
		y[i] += by
		return e.At(y...)
	}
	left, right := (at(0)-at(-h))/h, (at(h)-at(0))/h
	got, want := d.At(x...), (at(h)-at(-h))/(2*h)
	scale := 1 + math.Abs(want)
	if math.Abs(left-right) > 1e-3*scale {
		return
	}
	if !(math.Abs(got-want) < 1e-6*scale) {
		t.Errorf("%v by x%d at %v: expected %v, found %v = %v", e, i, x, want, d, got)
	}
}

// TestDerivativeFarOut stays finite where functions are flat or steep.
func TestDerivativeFarOut(t *testing.T) {
	x := Input(0)
	for _, e := range []Expr{Sigmoid(x), Tanh(x), Softplus(x), Gelu(x), GeluTanh(x), Swish(x, Const(1)), Mish(x),
		Elu(x, Const(1)), Selu(x, Const(1), Const(1)), Relu(x), HardSwish(x), Erf(x)} {
		d := Derivative(e, 0)
		for _, at := range []float64{-1e4, -800, -50, 0, 50, 800, 1e4} {
			if v := d.At(at); math.IsNaN(v) || math.IsInf(v, 0) || v < -1 || v > 2 {
				t.Errorf("derivative of %v at %v: %v", e, at, v)
			}
		}
	}
	if d := Derivative(Exp(Input(1)), 0); d != Const(0) {
		t.Errorf("%v", d)
	}
}

// TestDerivativeAtKinks compares with torch's autograd at the points where a function has a kink.
func TestDerivativeAtKinks(t *testing.T) {
	x := Inputs(3)
	for _, c := range []struct {
		e    Expr
		by   int
		at   []float64
		want float64
	}{
		{Relu(x[0]), 0, []float64{0}, 0},
		{LeakyRelu(x[0], Const(0.1)), 0, []float64{0}, 0.1},
		{Elu(x[0], Const(0.3)), 0, []float64{0}, 0.3},
		{Selu(x[0], Const(2), Const(3)), 0, []float64{0}, 6},
		{Celu(x[0], Const(2)), 0, []float64{0}, 1},
		{Abs(x[0]), 0, []float64{0}, 0},
		{Max(x[0], x[1]), 0, []float64{2, 2}, 0.5},
		{Max(x[0], x[1]), 1, []float64{2, 2}, 0.5},
		{Max(x[0], x[1]), 1, []float64{2, 3}, 1},
		{Min(x[0], x[1]), 0, []float64{2, 2}, 0.5},
		{Min(x[0], x[1]), 1, []float64{2, 3}, 0},
		{Clip(x[0], x[1], x[2]), 0, []float64{-1, -1, 1}, 1},
		{Clip(x[0], x[1], x[2]), 0, []float64{1, -1, 1}, 1},
		{Clip(x[0], x[1], x[2]), 1, []float64{-1, -1, 1}, 0},
		{Clip(x[0], x[1], x[2]), 2, []float64{1, -1, 1}, 0},
		{Clip(x[0], x[1], x[2]), 2, []float64{2, -1, 1}, 1},
		{Clip(x[0], x[1], x[2]), 2, []float64{0, 2, 1}, 1},
		{HardSigmoid(x[0], Const(0.2), Const(0.5)), 0, []float64{2.5}, 0},
		{HardSwish(x[0]), 0, []float64{-3}, 0},
		{HardSwish(x[0]), 0, []float64{3}, 1},
		{ThresholdedRelu(x[0], Const(1)), 0, []float64{1}, 0},
		{Shrink(x[0], Const(0.5), Const(1)), 0, []float64{1}, 0},
		{Pow(x[0], x[1]), 0, []float64{0, 0}, 0},
		{Pow(x[0], x[1]), 1, []float64{0, 0}, 0},
		{Pow(x[0], x[1]), 0, []float64{0, 2}, 0},
	} {
		if got := Derivative(c.e, c.by).At(c.at...); got != c.want {
			t.Errorf("%v by x%d at %v: expected %v, found %v", c.e, c.by, c.at, c.want, got)
		}
	}
}
