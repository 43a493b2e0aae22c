package families_test

import (
	"fmt"
	"math"
	"math/cmplx"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// TestLiquidKB checks the term of liquid_kernel kb against its definition: sums over spectra, in loops.
func TestLiquidKB(t *testing.T) {
	const features, states = 2, 4
	for _, length := range []int{1, 2, 5, 12} {
		for _, changes := range []string{"", "model.layer.l_max=4", "model.layer.l_max=5 model.layer.allcombs=false"} {
			t.Run(fmt.Sprint(length, changes), func(t *testing.T) {
				var weights models.Weights
				// answer runs one layer alone.
				answer := func(kernel string, x []float64) []float64 {
					p := preset(t, "liquid-s4-cifar")
					c := p.Config
					for _, kv := range strings.Fields(`encoder._name_=id model.d_model=2 model.n_layers=1 model.residual=null model.norm=none
						model.layer.d_state=8 model.layer.bidirectional=false model.layer.activation=null model.layer.postact=null
						model.layer.dt_min=0.05 model.layer.liquid_degree=3 decoder.mode=last decoder.l_output=null decoder.d_output=2
						model.layer.liquid_kernel=` + kernel + " " + changes) {
						k, v, _ := strings.Cut(kv, "=")
						if err := c.Settings().Set(k, v); err != nil {
							t.Fatal(err)
						}
					}
					w, err := p.Init(c, 3)
					if err != nil {
						t.Fatal(err)
					}
					copy(tensor.Data[float32](w["decoder.0.output_transform.weight"]), []float32{1, 0, 0, 1})
					clear(tensor.Data[float32](w["decoder.0.output_transform.bias"]))
					clear(tensor.Data[float32](w["model.layers.0.layer.D"]))
					if kernel == "kb" {
						weights = w
					}
					g, err := models.Build(c, w, models.BuildOptions{})
					if err != nil {
						t.Fatal(err)
					}
					m, err := open.Graph(g, "kb", open.Options{})
					if err != nil {
						t.Fatal(err)
					}
					v := make([]float32, len(x))
					for i := range x {
						v[i] = float32(x[i])
					}
					y, err := run(t, m.Compile, runtime.Options{Backend: ref.New(), Precision: tensor.Float64},
						map[string]tensor.Datum{models.Input: tensor.FromSlice(v, 1, length, features)}).Float64s()
					if err != nil {
						t.Fatal(err)
					}
					return y
				}
				x, impulse := make([]float64, length*features), make([]float64, length*features)
				for i := range x {
					x[i] = float64(float32(math.Sin(float64(i*i) + 1)))
				}
				impulse[0], impulse[1] = 1, 1
				with, without, k := answer("kb", x), answer("null", x), answer("null", impulse)
				lags := length
				if strings.Contains(changes, "l_max=4") {
					lags = min(length, 4)
				} else if strings.Contains(changes, "l_max=5") {
					lags = min(length, 5)
				}
				n := length + lags
				bins := n/2 + 1
				stored := func(name string, i int) float64 {
					return float64(tensor.Data[float32](weights["model.layers.0.layer.liquid."+name])[i])
				}
				systems := weights["model.layers.0.layer.liquid.B"].Dim(0)
				for h := range features {
					// Σ Δb/(1 - ½Δλ) over states and their conjugates
					gain, dt := 0.0, math.Exp(stored("log_dt", h))
					for j := range states {
						at := 2 * (h%systems*states + j)
						b, lambda := complex(stored("B", at), stored("B", at+1)), complex(stored("w", at), stored("w", at+1))
						gain += 2 * real(complex(dt, 0)*b/(1-complex(dt/2, 0)*lambda))
					}
					sum, power := make([]complex128, bins), 1.0
					products := make([]float64, length)
					for i := range products {
						products[i] = x[i*features+h]
					}
					for degree := 2; degree <= 3; degree++ {
						power *= gain
						late := make([]float64, length)
						if strings.Contains(changes, "allcombs=false") {
							for i := length - 1; i >= 0; i-- {
								if i == 0 {
									products[0] = 0
								} else {
									products[i] *= products[i-1]
								}
							}
							for i := range late {
								late[i] = products[length-1-i]
							}
						} else {
							late = lateProducts(x, features, h, degree)
						}
						for bin := range sum {
							var u, v complex128
							for i, p := range late {
								u += complex(p, 0) * cmplx.Rect(1, -2*math.Pi*float64(bin*i)/float64(n))
							}
							for i := range min(lags, bins) {
								v += complex(power*k[i*features+h], 0) * cmplx.Rect(1, -2*math.Pi*float64(bin*i)/float64(bins))
							}
							sum[bin] += u * v
						}
					}
					for i := range length {
						y := real(sum[0])
						for bin := 1; bin < bins; bin++ {
							z := real(sum[bin] * cmplx.Rect(1, 2*math.Pi*float64(bin*i)/float64(n)))
							if y += z; 2*bin != n {
								y += z
							}
						}
						want := y / float64(n)
						if got := with[i*features+h] - without[i*features+h]; math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
							t.Errorf("feature %d, step %d: the term is %v, expected %v", h, i, got, want)
						}
					}
				}
			})
		}
	}
}

// lateProducts are the products of a degree, reversed: of all subsets of the last steps in lexicographic order, the last ones, one
// for each step. The fewest last steps with as many subsets count, two at least; if not even all but the first suffice, two do.
func lateProducts(x []float64, features, h, degree int) []float64 {
	length := len(x) / features
	count := 1
	for m := 2; m < length; m++ {
		subsets := 1
		for i := range degree {
			subsets = subsets * (m - i) / (i + 1)
		}
		if subsets >= length {
			count = m
			break
		}
	}
	var all []float64
	var walk func(from, left int, product float64)
	walk = func(from, left int, product float64) {
		if left == 0 {
			all = append(all, product)
			return
		}
		for i := from; i < length; i++ {
			walk(i+1, left-1, product*x[i*features+h])
		}
	}
	walk(length-count, degree, 1)
	all = all[max(0, len(all)-length):]
	late := make([]float64, length)
	for i, p := range all {
		late[length-1-i] = p
	}
	return late
}
