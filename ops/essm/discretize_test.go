package essm_test

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// TestDiscretize checks every method against its formula (docs/math.md, Discretization), and zero-order hold against the
// exponential of a matrix.
func TestDiscretize(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	lambdas := []complex128{0, complex(-1e-9, 0), complex(-1e-6, 1e-7), complex(-0.5, 3), complex(-40, 0),
		complex(-1, -200)}
	for range 20 {
		lambdas = append(lambdas, complex(-math.Abs(r.NormFloat64()), 10*r.NormFloat64()))
	}
	n := len(lambdas)
	re, im := tensor.New(tensor.Float64, 1, 1, n), tensor.New(tensor.Float64, 1, 1, n)
	for i, l := range lambdas {
		tensor.Data[float64](re)[i], tensor.Data[float64](im)[i] = real(l), imag(l)
	}
	const dt, rate = 0.03, 2.0
	d := complex(dt*rate, 0)
	logDt := tensor.FromSlice([]float64{math.Log(dt)}, 1, 1, 1)
	for _, method := range essm.Methods {
		for _, eps := range []float64{0, 1e-7} {
			o := apply(t, essm.Discretize, "", []bool{true, true, true, true}, []*tensor.Tensor{re, im, logDt},
				ir.A("method", method), ir.A("rate", rate), ir.A("epsilon", eps))
			at := func(k, i int) float64 { return tensor.Data[float64](o[k])[i] }
			for i, l := range lambdas {
				step, b := essm.Pow(complex(at(0, i), at(1, i)), 1), complex(at(2, i), at(3, i))
				var wantStep, wantB complex128
				if alpha, ok := essm.Alpha(method); ok {
					a := complex(alpha, 0)
					wantStep, wantB = (1+(1-a)*d*l)/(1-a*d*l), d/(1-a*d*l)
				} else {
					wantStep = cmplx.Exp(d * l)
					switch x := d * l; {
					case eps != 0 && cmplx.Abs(
						x) < 1e-4: // the formula as such loses its digits here: first terms of the series
						wantB = (x + x*x/2 + x*x*x/6) * cmplx.Conj(l) / (l*cmplx.Conj(l) + complex(eps, 0))
					case eps != 0:
						wantB = (wantStep - 1) * cmplx.Conj(l) / (l*cmplx.Conj(l) + complex(eps, 0))
					case cmplx.Abs(x) < 1e-4:
						wantB = d * (1 + x/2 + x*x/6)
					default:
						wantB = (wantStep - 1) / l
					}
				}
				if !(cmplx.Abs(step-wantStep) <= 1e-12*max(1, cmplx.Abs(wantStep))) {
					t.Errorf("%s, λ=%v: step %v, expected %v", method, l, step, wantStep)
				}
				if !(cmplx.Abs(b-wantB) <= 1e-10*cmplx.Abs(wantB)) {
					t.Errorf("%s, ε=%v, λ=%v: b %v, expected %v", method, eps, l, b, wantB)
				}
			}
		}
	}
}

// TestForwardEulerZero: a step that lands on λ̄ = 0 has a finite logarithm, and its powers are 0.
func TestForwardEulerZero(t *testing.T) {
	one := func(v float64) *tensor.Tensor { return tensor.FromSlice([]float64{v}, 1, 1, 1) }
	o := apply(t, essm.Discretize, "", []bool{true, true, true, true},
		[]*tensor.Tensor{one(-2), one(0), one(math.Log(0.5))}, ir.A("method", "forward_euler"))
	a := complex(tensor.Data[float64](o[0])[0], tensor.Data[float64](o[1])[0])
	if essm.Pow(a, 0) != 1 || essm.Pow(a, 1) != 0 || essm.Pow(a, 1000) != 0 {
		t.Errorf("powers of λ̄ = 0: %v, %v, %v", essm.Pow(a, 0), essm.Pow(a, 1), essm.Pow(a, 1000))
	}
}

// TestDiscretizeDense checks full matrices against diagonal ones, and against the differential equation for a singular
// A.
func TestDiscretizeDense(t *testing.T) {
	logDt := tensor.FromSlice([]float64{math.Log(0.1)}, 1, 1, 1)
	for _, method := range essm.Methods {
		a := tensor.FromSlice([]float64{-0.5, 0, 0, -3}, 1, 1, 2, 2)
		o := apply(t, essm.DiscretizeDense, "", []bool{true, true}, []*tensor.Tensor{a, logDt}, ir.A("method", method))
		d := apply(t, essm.Discretize, "", []bool{true, true, true, true},
			[]*tensor.Tensor{tensor.FromSlice([]float64{-0.5, -3}, 1, 1, 2), tensor.New(tensor.Float64, 1, 1, 2),
				logDt}, ir.A("method", method))
		for i := range 2 {
			step := essm.Pow(complex(tensor.Data[float64](d[0])[i], tensor.Data[float64](d[1])[i]), 1)
			if got := tensor.Data[float64](o[0])[3*i]; !(math.Abs(got-real(step)) <= 1e-14) {
				t.Errorf("%s: Ā[%d,%d] = %v, expected %v", method, i, i, got, real(step))
			}
			if got, want := tensor.Data[float64](o[1])[3*i], tensor.Data[float64](d[2])[i]; !(math.Abs(got-want) <= 1e-14) {
				t.Errorf("%s: Γ[%d,%d] = %v, expected %v", method, i, i, got, want)
			}
		}
	}
	// x1' = x2, x2' = u: a double integrator. Over Δ a constant u adds Δ²/2 and Δ.
	o := apply(t, essm.DiscretizeDense, "", []bool{true, true},
		[]*tensor.Tensor{tensor.FromSlice([]float64{0, 1, 0, 0}, 1, 1, 2, 2), logDt})
	for i, want := range []float64{1, 0.1, 0, 1} {
		if got := tensor.Data[float64](o[0])[i]; !(math.Abs(got-want) <= 1e-15) {
			t.Errorf("Ā of a singular A: element %d is %v, expected %v", i, got, want)
		}
	}
	for i, want := range []float64{0.1, 0.005, 0, 0.1} {
		if got := tensor.Data[float64](o[1])[i]; !(math.Abs(got-want) <= 1e-16) {
			t.Errorf("Γ of a singular A: element %d is %v, expected %v", i, got, want)
		}
	}
}

// TestExpm: large norms, against the scalar function and exp(A)·exp(-A) = I.
func TestExpm(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, scale := range []float64{1e-8, 0.1, 1, 5, 30} {
		for n := 1; n < 8; n++ {
			a, minus := make([]float64, n*n), make([]float64, n*n)
			for i := range a {
				a[i] = scale * r.NormFloat64() / float64(n)
				minus[i] = -a[i]
			}
			e, err := essm.Expm(nil, a, n)
			if err != nil {
				t.Fatal(err)
			}
			f, err := essm.Expm(nil, minus, n)
			if err != nil {
				t.Fatal(err)
			}
			size := func(m []float64) float64 {
				s := 0.0
				for _, v := range m {
					s = max(s, math.Abs(v))
				}
				return s
			}
			for i := range n {
				for j := range n {
					sum, want := 0.0, 0.0
					if i == j {
						want = 1
					}
					for k := range n {
						sum += e[i*n+k] * f[k*n+j]
					}
					if !(math.Abs(sum-want) <= 1e-13*float64(n)*size(e)*size(f)) {
						t.Errorf("scale %v, n %d: (exp(A)exp(-A))[%d,%d] = %v", scale, n, i, j, sum)
					}
				}
			}
		}
	}
	if _, err := essm.Expm(nil, []float64{math.NaN()}, 1); err == nil {
		t.Error("a matrix of NaN has an exponential")
	}
	if e, err := essm.Expm(nil, []float64{-700}, 1); err != nil || !(math.Abs(e[0]/math.Exp(-700)-1) <= 1e-10) {
		t.Errorf("exp(-700) = %v, %v", e, err)
	}
}

// TestConstrain checks that the real part is negative for any stored value.
func TestConstrain(t *testing.T) {
	stored := tensor.FromSlice([]float64{3, 1, 0, -2, -1e-6, 0.5, -4, 40, 50, -3}, 1, 1, 5, 2)
	for _, kind := range essm.RealConstraints {
		o := apply(t, essm.Constrain, "", []bool{true, true}, []*tensor.Tensor{stored}, ir.A("real", kind),
			ir.A("max_real", 1e-3))
		for i, v := range tensor.Data[float64](o[0]) {
			if !(v <= 0) || kind == "clip" && !(v <= -1e-3) {
				t.Errorf("%s: real part %d is %v", kind, i, v)
			}
		}
	}
	for kind, want := range map[string][]float64{
		"same": {1, -2, 0.5, 40, -3}, "zero": {0, 0, 0, 0, 0}, "clip": {1, -1, 0.5, 1, -1},
		"negtive":  {-1e-4, -2, -1e-4, -1e-4, -3},
		"softplus": {1.3132616875182228, 0.12692801104297263, 0.9740769841801067, 40, 0.04858735157374206},
		"sigmoid":  {0.7310585786300049, 0.11920292202211755, 0.6224593312018546, 1, 0.04742587317756678},
		"Gaussian": {math.E, math.Exp(4), math.Exp(0.25), math.Inf(1), math.Exp(9)},
	} {
		o := apply(t, essm.Constrain, "", []bool{true, true}, []*tensor.Tensor{stored}, ir.A("imag", kind))
		for i, v := range tensor.Data[float64](o[1]) {
			if !(math.Abs(v-want[i]) <= 1e-14*math.Abs(want[i])) && v != want[i] {
				t.Errorf("%s: imaginary part %d is %v, expected %v", kind, i, v, want[i])
			}
		}
	}
}
