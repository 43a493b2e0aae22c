package kernel

import (
	"fmt"
	"math"
	"testing"
)

// TestTails checks every elementwise kernel against the portable one at all sizes around a vector's, on slices that begin
// anywhere: nothing beside the numbers asked for is written, and each is as it would be elsewhere.
func TestTails(t *testing.T) { eachVariant(t, testTails) }

func testTails(t *testing.T) {
	functions := map[string]func(y, x []float32){
		"sigmoid": Sigmoid, "gelu": Gelu, "geluTanh": GeluTanh, "tanh": Tanh, "exp": Exp, "erf": Erf, "relu": Relu,
		"sqrt": Sqrt, "hardSwish": HardSwish,
		"expm1": Expm1, "softplus": Softplus, "mish": Mish, "neg": Neg, "abs": Abs, "floor": Floor, "ceil": Ceil,
		"round":           Round,
		"elu":             func(y, x []float32) { Elu(y, x, 1.75, 1.25) },
		"thresholdedRelu": func(y, x []float32) { ThresholdedRelu(y, x, 0.5) },
		"shrink":          func(y, x []float32) { Shrink(y, x, 0.25, 0.5) },
		"leakyRelu":       func(y, x []float32) { LeakyRelu(y, x, 0.25) },
		"swish":           func(y, x []float32) { Swish(y, x, 1.5) },
		"clip":            func(y, x []float32) { Clip(y, x, -0.5, 1) },
		"hardSigmoid":     func(y, x []float32) { HardSigmoid(y, x, 0.2, 0.5) },
		"scaleShift":      func(y, x []float32) { ScaleShift(y, x, 0.5, 0.25) },
		"addS":            func(y, x []float32) { AddS(y, x, 3) },
		"subS":            func(y, x []float32) { SubS(y, x, 3) },
		"subFromS":        func(y, x []float32) { SubFromS(y, x, 3) },
		"mulS":            func(y, x []float32) { MulS(y, x, 3) },
		"divS":            func(y, x []float32) { DivS(y, x, 3) },
		"divIntoS":        func(y, x []float32) { DivIntoS(y, x, 3) },
		"add":             func(y, x []float32) { Add(y, x, x) },
		"sub":             func(y, x []float32) { Sub(y, x, x) },
		"mul":             func(y, x []float32) { Mul(y, x, x) },
		"div":             func(y, x []float32) { Div(y, x, x) },
		"max":             func(y, x []float32) { Max(y, x, x) },
		"min":             func(y, x []float32) { Min(y, x, x) },
		"affine":          func(y, x []float32) { Affine(y, x, 1, x, x) },
		"scan": func(y, x []float32) {
			n := len(x)
			d := &Diagonal{ARe: make([]float64, n), AIm: make([]float64, n), BRe: make([]float64, n),
				BIm: make([]float64, n)}
			zr, zi := make([]float64, n), make([]float64, n)
			for i := range n {
				d.ARe[i], d.BRe[i], zr[i], zi[i] = 0.5, 2, 3, 1
			}
			d.ScanForward(y, nil, &Inputs{Re: x}, 1, zr, zi)
		},
	}
	chosen := variant
	defer func() { use(chosen) }()
	r := newRand()
	long := random(r, 128)
	long[9], long[40], long[75] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))
	whole := make([]float32, len(long))
	want := make([]float64, len(long))
	for name, f := range functions {
		use(Generic)
		f(whole, long)
		use(chosen)
		for n := range 68 {
			off := r.IntN(9)
			x, y := long[off:off+n], make([]float32, 3+n+17)
			for i := range y {
				y[i] = guard
			}
			for i := range y {
				want[i] = guard
				if i >= 3 && i < 3+n {
					want[i] = float64(whole[off+i-3])
				}
			}
			f(y[3:3+n], x)
			near(t, fmt.Sprintf("%s, %d numbers from %d on", name, n, off), y, want[:len(y)], 3e-6)
		}
	}
}
