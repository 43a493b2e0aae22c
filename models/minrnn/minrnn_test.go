package minrnn_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/minrnn"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// TestPlain checks both families against their formulas, also for gates so far open or shut that both sigmoids underflow in
// float32, and with a given state.
func TestPlain(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, kind := range []string{minrnn.GRU, minrnn.LSTM} {
		for _, scale := range []float32{1, 60} {
			c, err := models.ParseConfig(fmt.Appendf(nil, `{"model_type": %q, "dim": 3, "expansion_factor": 2, "proj_out": false}`, kind), kind)
			if err != nil {
				t.Fatal(err)
			}
			w, err := minrnn.Init(c.(*minrnn.Config), 1)
			if err != nil {
				t.Fatal(err)
			}
			var weights []float32
			for _, x := range w {
				weights = tensor.Data[float32](x)
			}
			r := rand.New(rand.NewPCG(1, 1))
			const length, dim, inner = 7, 3, 6
			x, before := tensor.New(tensor.Float32, 1, length, dim), tensor.New(tensor.Float32, 1, inner)
			for _, v := range [][]float32{tensor.Data[float32](x), tensor.Data[float32](before)} {
				for i := range v {
					v[i] = scale * float32(r.NormFloat64())
				}
			}
			g, err := models.Build(c, w, models.BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
			if err != nil {
				t.Fatal(err)
			}
			out, err := m.NewSession().Run(context.Background(), map[string]tensor.Datum{models.Input: x, models.StateIn: before})
			if err != nil {
				t.Fatal(err)
			}
			got, err := out[models.Output].(*tensor.Tensor).Float64s()
			if err != nil {
				t.Fatal(err)
			}
			h := make([]float64, inner)
			for i, v := range tensor.Data[float32](before) {
				h[i] = float64(v)
			}
			for step := range length {
				for i := range h {
					var u [3]float64
					for part := range len(weights) / (inner * dim) {
						for j := range dim {
							u[part] += float64(weights[(part*inner+i)*dim+j]) * float64(tensor.Data[float32](x)[step*dim+j])
						}
					}
					add, keep := sigmoid(u[1]), sigmoid(-u[1])
					if kind == minrnn.LSTM {
						all := sigmoid(u[1]) + sigmoid(u[2])
						keep, add = sigmoid(u[1])/all, sigmoid(u[2])/all
					}
					value := sigmoid(u[0])
					if u[0] >= 0 {
						value = u[0] + 0.5
					}
					h[i] = keep*h[i] + add*value
					if v := got[step*inner+i]; !(math.Abs(v-h[i]) <= 1e-12*(1+math.Abs(h[i]))) {
						t.Fatalf("%s, scale %v, step %d: %g, expected %g", kind, scale, step, v, h[i])
					}
				}
			}
		}
	}
}
