package passes_test

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// same checks that two graphs give the same answers in float64, to rounding, for inputs of several shapes; tokens are drawn
// below 4.
func same(t *testing.T, a, b *ir.Graph) {
	t.Helper()
	for _, dims := range []map[string]int64{{"B": 1, "L": 1, "P": 1}, {"B": 2, "L": 7, "P": 1}, {"B": 3, "L": 70, "P": 2}} {
		x, y := evaluate(t, a, dims), evaluate(t, b, dims)
		for name, want := range x {
			got, ok := y[name]
			if !ok {
				t.Errorf("output %s is gone", name)
				continue
			}
			if d := distance(got, want); !(d <= 1e-9) {
				t.Errorf("output %s at %v: differs by %.3g of its largest value", name, dims, d)
			}
		}
	}
}

// evaluate runs a graph on the interpreter in float64, with inputs that depend on their names alone.
func evaluate(t *testing.T, g *ir.Graph, dims map[string]int64) map[string][]float64 {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := map[string]tensor.Datum{}
	for _, p := range m.Inputs() {
		tt := p.Type.(*ir.TensorType)
		shape := make([]int, len(tt.Shape))
		for i, d := range tt.Shape {
			n, err := d.Eval(dims)
			if err != nil {
				t.Fatal(err)
			}
			shape[i] = int(n)
		}
		h := fnv.New64()
		h.Write([]byte(p.Name))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		x := tensor.New(tensor.Float64, shape...)
		for i := range x.Len() {
			v := r.NormFloat64()
			switch {
			case p.Name == "lengths":
				v = float64(1 + r.Int64N(dims["L"]))
			case tt.Elem.IsInt():
				v = float64(r.IntN(4))
			}
			tensor.Data[float64](x)[i] = v
		}
		if tt.Elem != tensor.Float32 {
			if x, err = x.Convert(tt.Elem, false); err != nil {
				t.Fatal(err)
			}
		}
		in[p.Name] = x
	}
	res, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float64{}
	for name, d := range res {
		v, err := d.(*tensor.Tensor).Float64s()
		if err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}

// distance is the largest difference, relative to the largest absolute value of want.
func distance(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	diff, scale := 0.0, 1e-300
	for i := range want {
		d := math.Abs(got[i] - want[i])
		if math.IsNaN(got[i]) != math.IsNaN(want[i]) {
			return math.NaN()
		}
		if !math.IsNaN(d) {
			diff, scale = max(diff, d), max(scale, math.Abs(want[i]))
		}
	}
	return diff / scale
}
