package kernel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	. "github.com/essmc/essmc/runtime/cuda/kernel"
)

// computed returns the values of an expression for operands of one length.
func computed(t *testing.T, e scalar.Expr, in ...[]float32) []float32 {
	t.Helper()
	b := kerneltest.New(t)
	n := len(in[0])
	out, list := b.Out(4*n), make([]Operand, len(in))
	for i, x := range in {
		list[i] = Dense(b.In(x), tensor.Float32)
	}
	calls, ok := Elementwise(e, []int{n}, Dense(out, tensor.Float32), list...)
	if !ok {
		t.Fatalf("%v is not computed", e)
	}
	b.Run(calls...)
	return b.Float32s(out)
}

type bound struct{ ulps, loss float64 }

// parameterSamples are samples of the parameters of operations.
var parameterSamples = map[scalar.Op][][]float64{
	scalar.OpLeakyRelu: {{0.01}, {-2}}, scalar.OpThresholdedRelu: {{1}, {-0.5}},
	scalar.OpClip:   {{-1, 2}, {0, math.Inf(1)}},
	scalar.OpShrink: {{0.25, 0.5}, {-1, 1.5}}, scalar.OpHardSigmoid: {{0.2, 0.5}, {1.0 / 6, 0.5}},
	scalar.OpElu: {{1}, {0.25}}, scalar.OpCelu: {{1}, {0.25}},
	scalar.OpSelu: {{1.67326319217681884765625, 1.05070102214813232421875}}, scalar.OpSwish: {{1}, {1.702}, {-0.3}, {0}, {1e-30}, {1e30}},
}

// defined are the bounds of functions that are computed by their definitions.
var defined = map[scalar.Op]bound{
	scalar.OpLeakyRelu: {0.5, 0}, scalar.OpShrink: {0.5, 0}, scalar.OpHardSigmoid: {1, 1.2e-7},
	scalar.OpHardSwish: {3, 1.2e-7}, scalar.OpElu: {2, 0}, scalar.OpCelu: {2, 0}, scalar.OpSelu: {3, 0}, scalar.OpSoftsign: {1.6, 0},
}

// excess returns the distance of got from want in units of the last place; 0 within the other tolerances of b. Zeros must
// have the same sign.
func excess(b bound, x, want float64, got float32) float64 {
	w := float32(want)
	if w == got && math.Signbit(want) == math.Signbit(float64(got)) || w != w && got != got {
		return 0
	}
	if w != w || got != got || want == 0 && got == 0 {
		return math.Inf(1)
	}
	off, size := math.Abs(float64(got)-want), max(1, math.Abs(x))
	if off <= b.loss*size || b.ulps > 0 && (off <= 1.2e-38*size || math.IsInf(float64(got), 1) && want > 3.39e38) {
		return 0
	}
	return off / max(0x1p-149, math.Abs(float64(math.Nextafter32(w, float32(math.Inf(1)))-w)))
}

var edges = func() (x []float32) {
	inf := float32(math.Inf(1))
	for _, v := range []float32{0, 1e-45, 1e-40, 0x1p-126, 0x1p-24, 0.25, 0.5, 1, 1.5, 2, 3, 4, 20, 88.72, 0x1p24, 0x1p24 - 1,
		0x1p31, math.MaxFloat32, inf} {
		x = append(x, v, -v)
	}
	return append(x, float32(math.NaN()))
}()

// TestOperations checks the bound of each operation of one operand on a sweep over float32.
func TestOperations(t *testing.T) {
	stride := uint64(200003)
	if testing.Short() {
		stride *= 7
	}
	swept := 0
	for _, op := range scalar.Ops() {
		samples := parameterSamples[op]
		if op.Arity() == 1 {
			samples = [][]float64{nil}
		}
		for _, k := range samples {
			swept++
			args := []scalar.Expr{scalar.Input(0)}
			for _, v := range k {
				args = append(args, scalar.Const(float64(float32(v))))
			}
			e := scalar.Apply(op, args...)
			b := defined[op]
			if ulps, loss, ok := BoundOf(op); ok {
				b = bound{ulps, loss}
			}
			worst, x := 0.0, slices.Clone(edges)
			for u := uint64(0); u < 1<<32; u += stride {
				x = append(x, math.Float32frombits(uint32(u)))
			}
			got := computed(t, e, x)
			for i, x := range x {
				want, got := e.At(float64(x)), got[i]
				u := excess(b, float64(x), want, got)
				if worst = max(worst, u); u > b.ulps+0.001 {
					t.Errorf("%v%v of %g: expected %g, found %g: %.2f units in the last place, of %v", op, k, x, want, got, u, b.ulps)
				}
			}
			t.Logf("%v%v: %.2f units of %v", op, k, worst, b.ulps)
		}
	}
	if swept < 40 {
		t.Errorf("%d operations, which is too few", swept)
	}
}

// TestPairs checks operations of two operands, on pairs of all edges and on random numbers.
func TestPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, op := range scalar.Ops() {
		if op.Arity() != 2 || op == scalar.OpSwish || op == scalar.OpElu || op == scalar.OpCelu {
			continue
		}
		e := scalar.Apply(op, scalar.Input(0), scalar.Input(1))
		b := bound{0.5, 0}
		if op == scalar.OpMod || op == scalar.OpMin || op == scalar.OpMax {
			b = bound{}
		}
		var xs, ys []float32
		check := func(x, y float32) { xs, ys = append(xs, x), append(ys, y) }
		compare := func(x, y, got float32) {
			want := e.At(float64(x), float64(y))
			if op == scalar.OpFloorMod { // the sum of a remainder and the divisor is rounded
				want = float64(float32(want))
			}
			if u := excess(b, 1, want, got); u > b.ulps+0.001 {
				t.Errorf("%v of %g, %g: expected %g, found %g: %.2f units in the last place", op, x, y, want, got, u)
			}
		}
		for _, x := range edges {
			for _, y := range edges {
				check(x, y)
			}
		}
		for range 3000 {
			x, y := math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
			check(x, y)
			check(float32(math.Abs(float64(x))), float32(r.NormFloat64()))
			check(float32(math.Exp(r.NormFloat64())), float32(20*r.NormFloat64()))
		}
		for i, got := range computed(t, e, xs, ys) {
			compare(xs[i], ys[i], got)
		}
	}
}

// TestExpressions checks expressions of several operations.
func TestExpressions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := scalar.Inputs(3)
	half, one := scalar.Const(0.5), scalar.Const(1)
	for _, e := range []scalar.Expr{
		x[0], scalar.Sub(half, x[1]), scalar.Mul(x[2], x[2]), scalar.FMA(x[0], half, one),
		scalar.Select(scalar.Less(x[0], x[1]), x[2], one), scalar.Select(scalar.Equal(scalar.Round(x[0]), scalar.Round(x[1])), x[0], scalar.Neg(x[2])),
		scalar.And(scalar.Less(x[0], x[1]), scalar.Less(x[1], x[2])), scalar.Or(scalar.Less(x[0], x[1]), scalar.Less(x[1], x[2])),
		scalar.Xor(scalar.Less(x[0], x[1]), scalar.Less(x[1], x[2])), scalar.Not(scalar.Less(x[0], x[1])),
		scalar.And(x[0], x[1]), scalar.Or(scalar.Round(x[0]), scalar.Less(x[1], x[2])), scalar.IsNaN(scalar.Sqrt(x[0])),
		scalar.Pow(x[0], scalar.Const(3)), scalar.Pow(x[0], scalar.Const(-1)), scalar.Pow(scalar.Const(2), x[0]),
		scalar.Pow(x[0], one), scalar.Pow(x[0], half), scalar.Pow(x[0], scalar.Const(2)), scalar.Mod(one, x[0]),
		scalar.Celu(x[0], x[1]), scalar.Swish(x[0], x[1]), scalar.Gelu(scalar.Add(scalar.Mul(x[0], x[1]), x[2])),
		scalar.Div(scalar.Add(scalar.Add(x[0], x[1]), x[2]), scalar.Const(3)), scalar.Float16(x[0]), scalar.BFloat16(x[0]),
		scalar.Mul(x[0], scalar.Sigmoid(x[1])), scalar.Shrink(x[0], x[1], half), scalar.Sin(scalar.Mul(x[0], scalar.Const(0x1p20))),
		scalar.Add(x[0], scalar.Sigmoid(scalar.Const(2))), one,
	} {
		in := make([][]float32, 3)
		for i := range in {
			for range 501 {
				in[i] = append(in[i], float32(r.NormFloat64()))
			}
		}
		for i, y := range computed(t, e, in...) {
			got, want := float64(y), float64(float32(e.At(float64(in[0][i]), float64(in[1][i]), float64(in[2][i]))))
			if got != want && !(math.Abs(got-want) <= 4e-6*max(1, math.Abs(want))) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("%v of %v, %v, %v: expected %v, found %v", e, in[0][i], in[1][i], in[2][i], want, got)
			}
		}
	}
}
