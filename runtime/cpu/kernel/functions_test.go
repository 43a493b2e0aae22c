package kernel

import (
	"math"
	"testing"
)

// ulps is the distance between got and the float32 nearest to want, in units in the last place of that.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	if got == w || math.IsNaN(want) && got != got {
		return 0
	}
	a := math.Abs(float64(w))
	unit := math.Nextafter32(float32(a), math.MaxFloat32) - float32(a)
	return math.Abs(float64(got)-want) / float64(unit)
}

// spread is arguments of all sizes, dense between -20 and 20.
func spread() []float32 {
	v := []float32{0, float32(math.Copysign(0, -1)), 1e-40, -1e-40, 1e-20, -1e-20, 1e-5, -1e-5, 100, -100, 1e20, -1e20,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}
	for i := range 80001 {
		v = append(v, float32(i-40000)*0.0005)
	}
	return v
}

func softplus64(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func elu64(x, below, above float64) float64 {
	if x < 0 {
		return below * math.Expm1(x)
	}
	return above * x
}

func shrink64(x, bias, lambd float64) float64 {
	switch {
	case x < -lambd:
		return x + bias
	case x > lambd:
		return x - bias
	}
	return 0
}

func TestFunctions(t *testing.T) { eachVariant(t, testFunctions) }

func testFunctions(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, f := range []struct {
		name string
		run  func(y, x []float32)
		want func(float64) float64
		ulps float64
		abs  float64                  // error that is allowed in any case, relative to max(1, |x|)
		wide func(ulps, abs *float64) // what the vector variants are allowed instead
	}{
		{"exp", Exp, math.Exp, 0.6, 1e-38, func(ulps, abs *float64) { *ulps, *abs = 2, 1.2e-38 }},
		{"sigmoid", Sigmoid, sigmoid, 0.6, 1e-38, func(ulps, _ *float64) { *ulps = 4 }},
		{"tanh", Tanh, math.Tanh, 0.6, 1e-38, func(ulps, _ *float64) { *ulps = 8 }},
		{"erf", Erf, math.Erf, 0.7, 1e-38, func(ulps, _ *float64) { *ulps = 6 }},
		{"gelu", Gelu, func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }, 0.9, 1e-38,
			func(_, abs *float64) { *abs = 2e-7 }},
		{"swish", func(y, x []float32) { Swish(y, x, 1) }, func(x float64) float64 { return x * sigmoid(x) }, 0.6,
			1e-38, func(ulps, _ *float64) { *ulps = 4 }},
		{"geluTanh", GeluTanh, func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}, 0.6, 1e-7, func(ulps, _ *float64) { *ulps = 4 }},
		{"relu", Relu, func(x float64) float64 {
			if x < 0 {
				return 0
			}
			return x
		}, 0, 0, nil},
		{"leaky", func(y, x []float32) { LeakyRelu(y, x, 0.25) }, func(x float64) float64 {
			if x < 0 {
				return 0.25 * x
			}
			return x
		}, 0, 1e-44, nil},
		{"hardSigmoid", func(y, x []float32) { HardSigmoid(y, x, 0.2, 0.5) },
			func(x float64) float64 { return min(max(0.2*x+0.5, 0), 1) }, 1, 3e-8, nil},
		{"hardSwish", HardSwish, func(x float64) float64 { return x * min(max(x/6+0.5, 0), 1) }, 3, 6e-8, nil},
		{"expm1", Expm1, math.Expm1, 0.6, 1e-44, func(ulps, abs *float64) { *ulps, *abs = 2, 2e-45 }},
		{"softplus", Softplus, softplus64, 0.6, 1e-44, func(ulps, abs *float64) { *ulps, *abs = 2, 1.2e-38 }},
		{"mish", Mish, func(x float64) float64 { return x * math.Tanh(softplus64(x)) }, 0.6, 1e-44,
			func(ulps, abs *float64) { *ulps, *abs = 4, 1.2e-38 }},
		{"elu", func(y, x []float32) { Elu(y, x, 1.75, 1.25) }, func(x float64) float64 { return elu64(x, 1.75, 1.25) },
			0.6, 1e-44, func(ulps, _ *float64) { *ulps = 2 }},
		{"thresholdedRelu", func(y, x []float32) { ThresholdedRelu(y, x, 0.5) }, func(x float64) float64 {
			if x > 0.5 {
				return x
			}
			return 0
		}, 0, 0, nil},
		{"shrink", func(y, x []float32) { Shrink(y, x, 0.25, 0.5) },
			func(x float64) float64 { return shrink64(x, 0.25, 0.5) }, 0.6, 0, nil},
		{"floor", Floor, math.Floor, 0, 0, nil},
		{"ceil", Ceil, math.Ceil, 0, 0, nil},
		{"round", Round, math.RoundToEven, 0, 0, nil},
		{"log", Log, math.Log, 0.6, 0, nil},
		{"square", Square, func(x float64) float64 { return x * x }, 0.6, 1e-38, nil},
		{"reciprocal", Reciprocal, func(x float64) float64 { return 1 / x }, 0.6, 1e-38, nil},
		{"maxS", func(y, x []float32) { MaxS(y, x, 3) }, func(x float64) float64 { return max(x, 3) }, 0, 0, nil},
		{"minS", func(y, x []float32) { MinS(y, x, 3) }, func(x float64) float64 { return min(x, 3) }, 0, 0, nil},
		{"scaleShift", func(y, x []float32) { ScaleShift(y, x, 0.5, 0.25) },
			func(x float64) float64 { return 0.5*x + 0.25 }, 0.6, 0, nil},
		{"addS", func(y, x []float32) { AddS(y, x, 3) }, func(x float64) float64 { return x + 3 }, 0.6, 0, nil},
		{"subS", func(y, x []float32) { SubS(y, x, 3) }, func(x float64) float64 { return x - 3 }, 0.6, 0, nil},
		{"subFromS", func(y, x []float32) { SubFromS(y, x, 3) }, func(x float64) float64 { return 3 - x }, 0.6, 0, nil},
		{"mulS", func(y, x []float32) { MulS(y, x, 3) }, func(x float64) float64 { return 3 * x }, 0.6, 1e-44, nil},
		{"divS", func(y, x []float32) { DivS(y, x, 3) }, func(x float64) float64 { return x / 3 }, 0.6, 1e-44, nil},
		{"divIntoS", func(y, x []float32) { DivIntoS(y, x, 3) }, func(x float64) float64 { return 3 / x }, 0.6, 1e-38, nil},
		{"neg", Neg, func(x float64) float64 { return -x }, 0, 0, nil},
		{"abs", Abs, math.Abs, 0, 0, nil},
		{"sqrt", Sqrt, math.Sqrt, 0.6, 0, nil},
		{"cube", Cube, func(x float64) float64 { return x * x * x }, 0.6, 0, nil},
		{"clip", func(y, x []float32) { Clip(y, x, -1, 2) }, func(x float64) float64 { return min(max(x, -1), 2) }, 0,
			0, nil},
	} {
		if f.wide != nil && variant != Generic {
			f.wide(&f.ulps, &f.abs)
		}
		x := spread()
		y := make([]float32, len(x))
		f.run(y, x)
		worst, at := 0.0, 0
		for i, v := range x {
			want := f.want(float64(v))
			if math.IsNaN(want) != (y[i] != y[i]) {
				t.Errorf("%s(%g) = %g, expected %g", f.name, v, y[i], want)
				continue
			}
			if math.Abs(float64(y[i])-want) <= f.abs*max(1, math.Abs(float64(v))) {
				continue
			}
			if u := ulps(y[i], want); u > worst || u != u {
				if worst, at = u, i; u != u {
					break
				}
			}
		}
		if !(worst <= f.ulps) {
			t.Errorf("%s(%g) = %g, expected %g: %.2f units", f.name, x[at], y[at], f.want(float64(x[at])), worst)
		}
		f.run(x, x) // in place
		for i := range x {
			if x[i] != y[i] && (x[i] == x[i] || y[i] == y[i]) {
				t.Fatalf("%s in place: element %d is %g, expected %g", f.name, i, x[i], y[i])
			}
		}
	}
}

func TestArithmetic(t *testing.T) { eachVariant(t, testArithmetic) }

func testArithmetic(t *testing.T) {
	r := newRand()
	for n := range 68 {
		a, b, y := random(r, n), random(r, n), make([]float32, n)
		if n > 4 {
			a[1], b[2], a[3] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))
		}
		for name, f := range map[string]struct {
			run  func(y, a, b []float32)
			want func(a, b float64) float64
		}{
			"add": {Add, func(a, b float64) float64 { return a + b }},
			"sub": {Sub, func(a, b float64) float64 { return a - b }},
			"mul": {Mul, func(a, b float64) float64 { return a * b }},
			"div": {Div, func(a, b float64) float64 { return a / b }},
			"max": {Max, func(a, b float64) float64 { return max(a, b) }},
			"min": {Min, func(a, b float64) float64 { return min(a, b) }},
		} {
			want := make([]float64, n)
			for i := range want {
				want[i] = f.want(float64(a[i]), float64(b[i]))
			}
			f.run(y, a, b)
			for i, w := range want {
				if math.IsNaN(w) && y[i] == y[i] || !math.IsNaN(w) && ulps(y[i], w) > 0.6 {
					t.Fatalf("%s of %g and %g: %g, expected %g", name, a[i], b[i], y[i], w)
				}
			}
		}
	}
}

func TestRows(t *testing.T) { eachVariant(t, testRows) }

func testRows(t *testing.T) {
	r := newRand()
	for _, f := range sizes {
		for _, rows := range []int{0, 1, 3} {
			x, y := random(r, rows*f), make([]float32, rows*f)
			scale, shift := random(r, f), random(r, f)
			want := make([]float64, rows*f)
			check := func(name string, row func(i, j int, mean, variance float64) float64, tol float64) {
				t.Helper()
				for i := range rows {
					mean, variance := 0.0, 0.0
					for j := range f {
						mean += float64(x[i*f+j]) / float64(f)
					}
					for j := range f {
						variance += (float64(x[i*f+j]) - mean) * (float64(x[i*f+j]) - mean) / float64(f)
					}
					for j := range f {
						want[i*f+j] = row(i, j, mean, variance)
					}
				}
				near(t, name, y, want, tol)
			}
			at := func(i, j int) float64 { return float64(x[i*f+j]) }
			Affine(y, x, rows, scale, shift)
			check("affine", func(i, j int, _,
				_ float64) float64 {
				return float64(scale[j])*at(i, j) + float64(shift[j])
			}, 1e-6)
			Affine(y, x, rows, scale, nil)
			check("scale", func(i, j int, _, _ float64) float64 { return float64(scale[j]) * at(i, j) }, 1e-6)
			LayerNorm(y, x, rows, f, 1e-5, scale, shift)
			check("layer norm", func(i, j int, m, v float64) float64 {
				return (at(i, j)-m)/math.Sqrt(v+1e-5)*float64(scale[j]) + float64(shift[j])
			}, 5e-6)
			if f > 1 {
				ScalarNorm(y, x, rows, f, 0.5, 2)
				check("scalar norm", func(i, j int, m,
					v float64) float64 {
					return 2 / math.Sqrt(v) * (at(i, j) - m + 0.5)
				}, 5e-6)
			}
			per := random(r, rows)
			RepeatR(y, per, rows, f)
			check("repeat", func(i, _ int, _, _ float64) float64 { return float64(per[i]) }, 0)
			if f == 0 {
				continue
			}
			d := random(r, 3*f)
			z, wide := make([]float32, rows*3*f), make([]float64, rows*3*f)
			for i := range wide {
				row, j := i/(3*f), i%(3*f)
				wide[i] = float64(d[j]) * at(row, j%f)
			}
			Scale(z, x, rows, d, f)
			near(t, "channels", z, wide, 1e-6)
		}
	}
}

// TestLeakyReluOfZero checks that 0 and -0 are not below 0: a slope that is not finite does not reach them.
func TestLeakyReluOfZero(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		zero, minus := float32(0), float32(math.Copysign(0, -1))
		for _, alpha := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0.1} {
			for _, n := range []int{1, 8, 16, 37} {
				x, y := make([]float32, n), make([]float32, n)
				for i := range x {
					x[i] = []float32{zero, minus}[i%2]
				}
				check := func(name string) {
					for i, v := range y {
						if math.Float32bits(v) != math.Float32bits(x[i]) {
							t.Errorf("%s, alpha %v: element %d of %d: expected %v, found %v", name, alpha, i, n, x[i], v)
						}
					}
				}
				LeakyRelu(y, x, float32(alpha))
				check("LeakyRelu")
				clear(y)
				NewFused(n, []Operand{{0, n}}, []FusedStep{{Op: FusedLeakyRelu, B: []float32{float32(alpha)}}}).Run(y, [][]float32{x}, 1)
				check("fused")
			}
		}
	})
}
