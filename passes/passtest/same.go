package passtest

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

// Dims are the default sizes at which Same compares answers.
var Dims = []map[string]int64{{"B": 1, "L": 1, "P": 1}, {"B": 2, "L": 7, "P": 1}, {"B": 3, "L": 70, "P": 2}}

// Same checks that two graphs give the same answers in float64 on the reference interpreter, to tol relative to their
// largest value.
func Same(t testing.TB, a, b *ir.Graph, tol float64, dims ...map[string]int64) {
	t.Helper()
	if dims == nil {
		dims = Dims
	}
	o := runtime.Options{Backend: ref.New(), Precision: tensor.Float64}
	for _, d := range dims {
		x, y := Evaluate(t, a, o, d), Evaluate(t, b, o, d)
		for name, want := range x {
			got, ok := y[name]
			if !ok {
				t.Errorf("output %s is gone", name)
				continue
			}
			if far := Distance(got, want); !(far <= tol) {
				t.Errorf("output %s at %v: differs by %.3g of its largest value", name, d, far)
			}
		}
	}
}

// Evaluate runs a graph at the given sizes, with inputs that depend on their names only: normal numbers, tokens from 0
// to 3, lengths within L. It returns the outputs as float64.
func Evaluate(t testing.TB, g *ir.Graph, o runtime.Options, dims map[string]int64) map[string][]float64 {
	t.Helper()
	out, err := Answers(g, o, dims)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Answers is Evaluate for graphs that may not run.
func Answers(g *ir.Graph, o runtime.Options, dims map[string]int64) (map[string][]float64, error) {
	m, err := runtime.New(g, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	in := map[string]tensor.Datum{}
	for _, p := range m.Inputs() {
		if in[p.Name], err = input(p, o.Precision == tensor.Float64, dims); err != nil {
			return nil, err
		}
	}
	res, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		return nil, err
	}
	out := map[string][]float64{}
	for name, d := range res {
		if out[name], err = d.(*tensor.Tensor).Float64s(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func input(p runtime.Port, wide bool, dims map[string]int64) (*tensor.Tensor, error) {
	tt := p.Type.(*ir.TensorType)
	shape := make([]int, len(tt.Shape))
	for i, d := range tt.Shape {
		n, err := d.Eval(dims)
		if err != nil {
			return nil, err
		}
		shape[i] = int(n)
	}
	h := fnv.New64()
	h.Write([]byte(p.Name))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	x := tensor.New(tensor.Float64, shape...)
	for i := range x.Len() {
		v := float64(float32(r.NormFloat64())) // the same number in both precisions
		switch {
		case p.Name == "lengths":
			v = float64(1 + r.Int64N(dims["L"]))
		case tt.Elem.IsInt():
			v = float64(r.IntN(4))
		}
		tensor.Data[float64](x)[i] = v
	}
	if tt.Elem == tensor.Float32 && wide {
		return x, nil
	}
	return x.Convert(tt.Elem, false)
}

// Distance returns the largest difference, relative to the largest absolute value of want. Numbers that are NaN in both
// are equal.
func Distance(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	diff, scale := 0.0, 1e-300
	for i := range want {
		if math.IsNaN(got[i]) != math.IsNaN(want[i]) {
			return math.NaN()
		}
		if d := math.Abs(got[i] - want[i]); !math.IsNaN(d) {
			diff, scale = max(diff, d), max(scale, math.Abs(want[i]))
		}
	}
	return diff / scale
}
