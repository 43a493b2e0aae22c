package rows_test

import (
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

// products returns a graph with every kind of product that has a form in low precision, and one that is too small for
// it.
func products(t *testing.T) *ir.Graph {
	t.Helper()
	r := NewGen(11)
	b := ir.NewBuilder("products", ops.Default, ops.Opsets())
	weights := func(name string, shape ...int) *ir.Value { return b.Const(name, r.Floats(0.2, shape...)) }
	op := func(domain, name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value {
		return b.Op(domain, name, in, attrs...)
	}
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 64))
	y := op("essm", "Linear", []*ir.Value{x, weights("w1", 96, 64), weights("b1", 96)})
	z := op("", "MatMul", []*ir.Value{x, weights("w2", 64, 96)}) // rounds x no second time
	y = op("", "Add", []*ir.Value{y, z})
	y = op("essm", "HeadLinear", []*ir.Value{y, weights("w3", 1, 2, 33, 48)})
	y = op("essm", "Linear", []*ir.Value{y, weights("w4", 64, 66)})
	y = op("essm", "HeadLinear", []*ir.Value{y, weights("w5", 3, 2, 32, 32)}) // channels share it
	y = op("essm", "Linear", []*ir.Value{y, weights("w6", 5, 192)})
	b.Output("y", y)
	flat := b.Input("flat", ir.Tensor(tensor.Float32, "R", 40))
	b.Output("z", op("", "Gemm", []*ir.Value{flat, weights("w7", 50, 40), weights("b7", 50)}, ir.A("transB", int64(1)),
		ir.A("alpha", 0.5)))
	b.Output("z2", op("", "Gemm", []*ir.Value{flat, weights("w8", 40, 50)}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLowPrecision(t *testing.T) {
	g := products(t)
	r := NewGen(12)
	in := map[string]tensor.Datum{"x": r.Floats(1, 2, 131, 64), "flat": r.Floats(1, 7, 40)}
	want := Truth(t, g, in)
	for p, tol := range map[tensor.DType][2]float64{tensor.BFloat16: {5e-4, 1e-2}, tensor.Int8: {1e-3, 3e-2}} {
		one := Run(t, g, runtime.Options{Backend: cpu.New(), Precision: p, Threads: 1}, in)
		on.Parameters(t, p.String(), g, in, runtime.Options{Precision: p})
		for name, w := range want {
			worst, scale := 0.0, 0.0
			ref, err := w.(*tensor.Tensor).Float64s()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range tensor.Data[float32](one[name].(*tensor.Tensor)) {
				worst, scale = max(worst, math.Abs(float64(v)-ref[i])), max(scale, math.Abs(ref[i]))
			}
			if e := worst / scale; !(e > tol[0] && e < tol[1]) {
				t.Errorf("%v: %s is %.3g from the truth, expected %g to %g", p, name, e, tol[0], tol[1])
			}
		}
		for _, threads := range []int{2, 3} {
			more := Run(t, g, runtime.Options{Backend: cpu.New(), Precision: p, Threads: threads}, in)
			for name := range want {
				if !slices.Equal(one[name].(*tensor.Tensor).Bytes(), more[name].(*tensor.Tensor).Bytes()) {
					t.Errorf("%v: %s on %d threads differs", p, name, threads)
				}
			}
		}
		// Each step is rounded by itself, so a step alone gives the same numbers.
		x, y := tensor.Data[float32](in["x"].(*tensor.Tensor)), tensor.Data[float32](one["y"].(*tensor.Tensor))
		for _, row := range []int{0, 7, 130, 261} {
			alone := Run(t, g, runtime.Options{Backend: cpu.New(), Precision: p}, map[string]tensor.Datum{
				"x": tensor.FromSlice(x[row*64:(row+1)*64], 1, 1, 64), "flat": in["flat"]})
			if got := tensor.Data[float32](alone["y"].(*tensor.Tensor)); !slices.Equal(got, y[row*5:(row+1)*5]) {
				t.Errorf("%v: step %d alone is %v, expected %v", p, row, got, y[row*5:(row+1)*5])
			}
		}
	}
}

func TestLowPrecisionExplained(t *testing.T) {
	m, err := runtime.New(products(t), runtime.Options{Backend: cpu.New(), Precision: tensor.Int8})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Explain(map[string]int64{"B": 1, "L": 100, "R": 3})
	if err != nil {
		t.Fatal(err)
	}
	var forms []string
	for _, c := range got {
		forms = append(forms, c.Op+" "+c.Form)
		if c.Why == "" || c.Cost.Work.Flops == 0 {
			t.Errorf("%+v", c)
		}
	}
	want := []string{"essm.Linear int8", "MatMul int8", "essm.HeadLinear int8", "essm.Linear int8",
		"essm.HeadLinear int8", "essm.Linear float32", "Gemm int8", "Gemm int8"}
	if !slices.Equal(forms, want) {
		t.Errorf("forms %q, expected %q", forms, want)
	}
}

// TestLowPrecisionNotFinite checks that NaN and infinities in weights and inputs reach the answers.
func TestLowPrecisionNotFinite(t *testing.T) {
	g := products(t)
	r := NewGen(13)
	x := r.Floats(1, 1, 5, 64)
	tensor.Data[float32](x)[2*64+9] = float32(math.Inf(1))
	in := map[string]tensor.Datum{"x": x, "flat": r.Floats(1, 1, 40)}
	y := tensor.Data[float32](Run(t, g, runtime.Options{Backend: cpu.New(), Precision: tensor.Int8},
		in)["y"].(*tensor.Tensor))
	for i, v := range y {
		if bad := i/5 == 2; bad != (v != v) {
			t.Errorf("step %d, feature %d: %g", i/5, i%5, v)
		}
	}
}
