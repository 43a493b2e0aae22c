package spectral

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	_ "github.com/essmc/essmc/ops/std" // the operators that bodies are made of
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

func random(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return v
}

func TestDecomposeRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 5, 8, 16, 40} {
		for _, size := range []float64{1, 1e-200, 1e200} {
			a := random(r, n*n)
			for i := range a {
				a[i] *= size
			}
			e, err := Decompose(a, n)
			if err != nil {
				t.Fatal(err)
			}
			if !(e.Residual <= 1e-13*float64(n)) || e.Condition < 1 || e.Condition > 1e6 {
				t.Errorf("n = %d: residual %g, condition %g", n, e.Residual, e.Condition)
			}
			worst, trace := 0.0, complex(0, 0)
			for i := range n {
				trace += e.Values[i] - complex(a[i*n+i], 0)
				for j := range n { // T Λ T⁻¹ is A again
					var sum complex128
					for k := range n {
						sum += e.T[i*n+k] * e.Values[k] * e.Inverse[k*n+j]
					}
					worst = max(worst, cmplx.Abs(sum-complex(a[i*n+j], 0)))
				}
			}
			if !(worst <= 1e-13*size*e.Condition*float64(n)) || !(cmplx.Abs(trace) <= 1e-12*size*float64(n)) {
				t.Errorf("n = %d: T Λ T⁻¹ - A = %g, trace differs by %g", n, worst, trace)
			}
			for i := 0; i < n; i++ {
				if imag(e.Values[i]) == 0 {
					continue
				}
				if i+1 == n || imag(e.Values[i]) < 0 || e.Values[i+1] != cmplx.Conj(e.Values[i]) ||
					e.T[i+1] != cmplx.Conj(e.T[i]) {
					t.Errorf("n = %d: values %d and %d are no pair: %v", n, i, i+1, e.Values)
				}
				i++
			}
		}
	}
}

func TestDecomposeKnown(t *testing.T) {
	e, err := Decompose([]float64{-0.2, 1, -1, -3}, 2) // the paper's example
	if err != nil {
		t.Fatal(err)
	}
	lo, hi := -1.6-math.Sqrt(0.96), -1.6+math.Sqrt(0.96)
	x, y := min(real(e.Values[0]), real(e.Values[1])), max(real(e.Values[0]), real(e.Values[1]))
	if imag(e.Values[0]) != 0 || !(math.Abs(x-lo) <= 1e-14) || !(math.Abs(y-hi) <= 1e-14) || e.Condition > 3 {
		t.Errorf("values %v, condition %g; expected %v and %v", e.Values, e.Condition, lo, hi)
	}
	if e, err = Decompose([]float64{0, 3, -3, 0}, 2); err != nil || !(math.Abs(e.Condition-1) <= 1e-14) {
		t.Errorf("a normal matrix has condition %v, %v", e.Condition, err)
	}
	for _, size := range []int{2, 3, 5} { // Jordan blocks have one eigenvector each
		a := make([]float64, size*size)
		for i := range size {
			a[i*size+i] = -1
			if i+1 < size {
				a[i*size+i+1] = 1
			}
		}
		if e, err := Decompose(a, size); err != nil || e.Condition < 1e12 {
			t.Errorf("Jordan block of size %d: condition %v, %v", size, e.Condition, err)
		}
	}
	if e, err := Decompose(make([]float64, 9), 3); err != nil || e.Condition != 1 {
		t.Errorf("zero matrix: %+v, %v", e, err)
	}
	for _, a := range [][]float64{{math.NaN()}, {math.Inf(1)}, {1, 2}, {}} {
		if _, err := Decompose(a, 1); err == nil {
			t.Errorf("%v: no error", a)
		}
	}
}

func f64(t *testing.T, v []float64, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat64s(tensor.Float64, v, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSameAnswers checks that a system answers in diagonal form as it does with its full matrix, by every discretization.
func TestSameAnswers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const c, s, n, h, m, batch, length = 2, 3, 5, 2, 3, 2, 40
	a := random(r, c*s*n*n)
	for i := range c * s {
		for j := range n {
			a[(i*n+j)*n+j] -= 3
		}
	}
	for q := range n { // one head with real eigenvalues only, so that the others are padded
		for p := range q {
			a[q*n+p] = 0
		}
	}
	bm, cm, logDt := random(r, c*s*n*h), random(r, c*s*m*n), random(r, c*s)
	for i := range logDt {
		logDt[i] -= 2
	}
	u := f64(t, random(r, batch*length*s*h), batch, length, s*h)
	for _, method := range []string{"zoh", "bilinear", "backward_euler"} {
		b := ir.NewBuilder("diagonal", ops.Default, ops.Opsets())
		in := b.Input("u", ir.Tensor(tensor.Float64, "B", "L", s*h))
		full := b.Const("A", f64(t, a, c, s, n, n))
		bv, cv, dt := b.Const("Bm", f64(t, bm, c, s, n, h)), b.Const("Cm", f64(t, cm, c, s, m, n)),
			b.Const("log_dt", f64(t, logDt, c, s, 1))
		want := b.Op("essm", "StateSpace", []*ir.Value{in, dt, bv, cv, nil, full}, ir.A("method", method))
		b.Output("full", want)
		d := b.Ops("essm", "Diagonalize", 6, []*ir.Value{full, bv, cv})
		q := b.Ops("essm", "Discretize", 4, []*ir.Value{d[0], d[1], dt}, ir.A("method", method))
		b.Output("diagonal", b.Op("essm", "SSM", []*ir.Value{in, q[0], q[1], q[2], q[3], d[2], d[4], d[3], d[5]}))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		model, err := runtime.New(g, runtime.Options{Backend: ref.New()})
		if err != nil {
			t.Fatal(err)
		}
		out, err := model.NewSession().Run(t.Context(), map[string]tensor.Datum{"u": u})
		if err != nil {
			t.Fatal(err)
		}
		x, y := tensor.Data[float64](out["full"].(*tensor.Tensor)), tensor.Data[float64](out["diagonal"].(*tensor.Tensor))
		scale, diff := 0.0, 0.0
		for i := range x {
			scale, diff = max(scale, math.Abs(x[i])), max(diff, math.Abs(x[i]-y[i]))
		}
		if scale == 0 || !(diff <= 1e-12*scale) {
			t.Errorf("%s: answers differ by %g, largest %g", method, diff, scale)
		}
	}
}

func diagonalize(a, b, c *tensor.Tensor, attrs ...ir.Attr) ([]tensor.Datum, error) {
	n := &ir.Node{Op: Diagonalize, Attrs: ir.NewAttrs(attrs...)}
	return eval.Node(n, []tensor.Datum{a, b, c})
}

// TestStateMaps checks that z → x after x → z is the identity, and how heads of different kinds stand beside each other.
func TestStateMaps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 4
	a := append(random(r, n*n), make([]float64, n*n)...)
	for i := range n {
		a[n*n+i*n+i] = -float64(i + 1) // real, so the second head keeps n states
	}
	a[0], a[1], a[n], a[n+1] = -1, 5, -5, -1 // and the first has a pair
	one := f64(t, make([]float64, 2*n), 1, 2, n, 1)
	out, err := diagonalize(f64(t, a, 1, 2, n, n), one, f64(t, make([]float64, 2*n), 1, 2, 1, n))
	if err != nil {
		t.Fatal(err)
	}
	get := func(i int) []float64 { return tensor.Data[float64](out[i].(*tensor.Tensor)) }
	k := out[0].(*tensor.Tensor).Dim(2)
	if k != n {
		t.Fatalf("%d states, expected %d", k, n)
	}
	if get(0)[k-1] != -1 || get(1)[k-1] != 0 {
		t.Errorf("padding is %v + %vi, expected -1", get(0)[k-1], get(1)[k-1])
	}
	for head := range 2 {
		x := random(r, n)
		zre, zim := make([]float64, k), make([]float64, k)
		for j := range k {
			for q := range n {
				zre[j] += get(6)[(head*k+j)*n+q] * x[q]
				zim[j] += get(7)[(head*k+j)*n+q] * x[q]
			}
		}
		for q := range n {
			back := 0.0
			for j := range k {
				back += get(8)[(head*n+q)*k+j]*zre[j] + get(9)[(head*n+q)*k+j]*zim[j]
			}
			if !(math.Abs(back-x[q]) <= 1e-12) {
				t.Errorf("head %d: x[%d] comes back as %v, was %v", head, q, back, x[q])
			}
		}
	}
}

func TestDiagonalizeRefuses(t *testing.T) {
	jordan := f64(t, []float64{-1, 0, 0, -2, -1, 1, 0, -1}, 1, 2, 2, 2)
	b, c := f64(t, make([]float64, 4), 1, 2, 2, 1), f64(t, make([]float64, 4), 1, 2, 1, 2)
	_, err := diagonalize(jordan, b, c)
	if err == nil || !strings.HasPrefix(err.Error(),
		"head 1: expected eigenvectors of a condition number of at most 1e+03, found ") {
		t.Errorf("error %v", err)
	}
	worst, head, err := Condition(t.Context(), jordan, nil)
	if err != nil || head != 1 || worst < 1e12 {
		t.Errorf("condition %g of head %d, %v", worst, head, err)
	}
	if _, _, err := Condition(t.Context(), tensor.New(tensor.Float32, 1, 2, 2, 3), nil); err == nil {
		t.Error("a matrix that is not square: no error")
	}
	skewed := f64(t, []float64{-1, 1e3, 0, -2}, 1, 1, 2, 2) // condition about 2e3
	b, c = f64(t, make([]float64, 2), 1, 1, 2, 1), f64(t, make([]float64, 2), 1, 1, 1, 2)
	if _, err := diagonalize(skewed, b, c); err == nil {
		t.Error("the default of max_condition is not held")
	}
	if _, err := diagonalize(skewed, b, c, ir.A("max_condition", 1e4)); err != nil {
		t.Error(err)
	}
}
