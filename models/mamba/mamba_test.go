package mamba_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/mamba"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// TestParameters checks the parameters of the published models against their number.
func TestParameters(t *testing.T) {
	for _, p := range models.Presets() {
		want := map[string]int{"mamba-130m": 129135360, "mamba-370m": 371516416, "mamba-790m": 793204224,
			"mamba2-130m": 128989632}[p.ID]
		got, err := models.Parameters(p.Config, nil)
		if err != nil || got != want {
			t.Errorf("%s: %d parameters, expected %d (%v)", p.ID, got, want, err)
		}
	}
}

// configs are models that no reference case has.
var configs = map[string]string{
	"groups": `{"model_type": "mamba2", "vocab_size": 7, "hidden_size": 6, "num_hidden_layers": 2, "state_size": 3, "num_heads": 4,
		"head_dim": 3, "n_groups": 2, "time_step_limit": [0.02, 0.05], "use_bias": true}`,
	"released groups": `{"d_model": 6, "n_layer": 2, "vocab_size": 7, "ssm_cfg": {"layer": "Mamba2", "d_state": 3, "headdim": 3,
		"ngroups": 2}, "attn_layer_idx": [], "attn_cfg": {}, "tie_embeddings": false}`,
	"released layer norm": `{"d_model": 6, "n_layer": 2, "vocab_size": 7, "ssm_cfg": {"dt_rank": "auto"}, "rms_norm": false}`,
	"limit": `{"model_type": "mamba2", "vocab_size": 7, "hidden_size": 6, "num_hidden_layers": 1, "state_size": 3, "num_heads": 2,
		"head_dim": 6, "n_groups": 1, "time_step_limit": [0.0, Infinity], "tie_word_embeddings": true}`,
}

// TestPlain checks models against the formulas of their papers, in loops.
func TestPlain(t *testing.T) {
	for name, text := range configs {
		parsed, err := models.ParseConfig([]byte(text), name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := models.ParseConfig(parsed.Settings().JSON(), name)
		if err != nil || string(again.Settings().JSON()) != string(parsed.Settings().JSON()) {
			t.Fatalf("%s: read again: %v\n%s", name, err, parsed.Settings().JSON())
		}
		c := parsed.(*mamba.Config)
		w, err := mamba.Init(c, 3)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		for name, x := range w { // no tensor is of zeros or ones
			if !strings.Contains(name, "A_log") {
				for i := range tensor.Data[float32](x) {
					tensor.Data[float32](x)[i] += float32(0.3 * r.NormFloat64())
				}
			}
		}
		tokens := make([]int64, 9)
		for i := range tokens {
			tokens[i] = r.Int64N(7)
		}
		g, err := models.Build(c, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.NewSession().Run(context.Background(),
			map[string]tensor.Datum{models.Input: tensor.FromSlice(tokens, 1, len(tokens))})
		if err != nil {
			t.Fatal(err)
		}
		got, err := out[models.Output].(*tensor.Tensor).Float64s()
		if err != nil {
			t.Fatal(err)
		}
		want := plain(c, w, tokens)
		for i, v := range want {
			if !(math.Abs(got[i]-v) < 1e-10*(1+math.Abs(v))) {
				t.Fatalf("%s: logit %d is %g, expected %g", name, i, got[i], v)
			}
		}
	}
}

// matrix is a tensor as rows.
type matrix struct {
	cols int
	v    []float64
}

func (m matrix) times(x []float64, bias []float64) []float64 {
	y := make([]float64, len(m.v)/m.cols)
	for i := range y {
		for j, v := range x {
			y[i] += m.v[i*m.cols+j] * v
		}
		if bias != nil {
			y[i] += bias[i]
		}
	}
	return y
}

func sigmoid(x float64) float64  { return 1 / (1 + math.Exp(-x)) }
func silu(x float64) float64     { return x * sigmoid(x) }
func softplus(x float64) float64 { return math.Log1p(math.Exp(x)) }

// plain computes the logits of a sequence step by step.
func plain(c *mamba.Config, w models.Weights, tokens []int64) []float64 {
	get := func(name string) []float64 {
		if w[name] == nil {
			return nil
		}
		v, err := w[name].Float64s()
		if err != nil {
			panic(err)
		}
		return v
	}
	mat := func(name string) matrix { return matrix{w[name].Dim(w[name].Rank() - 1), get(name)} }
	linear := func(name string, x []float64) []float64 { return mat(name+".weight").times(x, get(name+".bias")) }
	norm := func(name string, x []float64, groups int) []float64 {
		y := make([]float64, len(x))
		scale, bias := get(name+".weight"), get(name+".bias")
		per := len(x) / groups
		for g := range groups {
			mean, square := 0.0, 0.0
			for _, v := range x[g*per : (g+1)*per] {
				mean += v / float64(per)
				square += v * v / float64(per)
			}
			if bias == nil {
				mean = 0
			}
			for i := g * per; i < (g+1)*per; i++ {
				y[i] = (x[i] - mean) / math.Sqrt(square-mean*mean+c.Epsilon) * scale[i]
				if bias != nil {
					y[i] += bias[i]
				}
			}
		}
		return y
	}
	embedding := "backbone.embeddings.weight"
	if c.Released {
		embedding = "backbone.embedding.weight"
	}
	table := mat(embedding)
	e, n, heads, two := c.Expand*c.HiddenSize, c.StateSize, c.NumHeads, c.ModelType == mamba.Type2
	h := make([][]float64, len(tokens))
	for t, k := range tokens {
		h[t] = append([]float64(nil), table.v[int(k)*table.cols:(int(k)+1)*table.cols]...)
	}
	for i := range c.Layers {
		block := fmt.Sprintf("backbone.layers.%d.", i)
		p := block + "mixer."
		state, past := make([]float64, e*n), [][]float64{}
		for t := range h {
			u := linear(p+"in_proj", norm(block+"norm", h[t], 1))
			x, z := u[:e], u[e:]
			if two {
				x, z = u[e:2*e+2*c.Groups*n], u[:e]
			}
			past = append(past, x)
			filter, bias := get(p+"conv1d.weight"), get(p+"conv1d.bias")
			v := make([]float64, len(x))
			for f := range v {
				for k := range c.ConvKernel {
					if at := t - c.ConvKernel + 1 + k; at >= 0 {
						v[f] += filter[f*c.ConvKernel+k] * past[at][f]
					}
				}
				v[f] = silu(v[f] + bias[f])
			}
			step, b, out := []float64(nil), []float64(nil), []float64(nil)
			if two {
				b, out, step = v[e:e+c.Groups*n], v[e+c.Groups*n:], u[len(u)-heads:]
				shift := get(p + "dt_bias")
				for k := range step {
					step[k] = softplus(step[k] + shift[k])
					if l := c.TimeStepLimit; len(l) == 2 { // bounds of a model are float32
						step[k] = min(max(step[k], float64(float32(l[0]))), float64(float32(l[1])))
					}
				}
			} else {
				q := linear(p+"x_proj", v)
				rank := len(q) - 2*n
				b, out = q[rank:rank+n], q[rank+n:]
				step = linear(p+"dt_proj", q[:rank])
				for k := range step {
					step[k] = softplus(step[k])
				}
			}
			y := make([]float64, e)
			for f := range y {
				k, g := f, 0
				if two {
					k = f / (e / heads)
					g = k / (heads / c.Groups) * n
				}
				for j := range n {
					rate := get(p + "A_log")
					a := rate[k*len(rate)/len(step)+j%(len(rate)/len(step))]
					s := &state[f*n+j]
					*s = math.Exp(-math.Exp(a)*step[k])**s + step[k]*v[f]*b[g+j]
					y[f] += out[g+j] * *s
				}
				y[f] = (y[f] + get(p + "D")[k]*v[f]) * silu(z[f])
			}
			if two {
				y = norm(p+"norm", y, c.Groups)
			}
			for k, v := range linear(p+"out_proj", y) {
				h[t][k] += v
			}
		}
	}
	if !c.Tied {
		table = mat("lm_head.weight")
	}
	var logits []float64
	for t := range h {
		logits = append(logits, table.times(norm("backbone.norm_f", h[t], 1), nil)...)
	}
	return logits
}

// TestMessages checks that wrong configurations and tensors are named.
func TestMessages(t *testing.T) {
	const small = `"vocab_size": 7, "hidden_size": 6, "num_hidden_layers": 1`
	for text, want := range map[string]string{
		`{"model_type": "mamba", "hiden_size": 6}`:                                      "hiden_size: unknown key, did you mean hidden_size?",
		`{"model_type": "mamba", "hidden_act": "gelu"}`:                                 "hidden_act: expected silu, found gelu",
		`{"model_type": "mamba", "time_step_rank": "automatic"}`:                        `time_step_rank: expected an integer from 0 to`,
		`{"model_type": "mamba", "rms_norm": false}`:                                    "rms_norm: expected true, found false",
		`{"model_type": "mamba2", ` + small + `}`:                                       "head_dim: expected heads of 12 features in all, 2 times 6, found 128 of 64",
		`{"model_type": "mamba2", "n_groups": 3}`:                                       "n_groups: expected a divisor of 128 heads, found 3",
		`{"model_type": "mamba2", "time_step_limit": [1]}`:                              "time_step_limit: expected the smallest and the largest step size, found [1]",
		`{"model_type": "mamba2", "time_step_limit": [2, NaN]}`:                         "time_step_limit: expected a list of numbers, or null, found 2,NaN",
		`{"d_model": 6, "n_layer": 1, "vocab_size": 7, "ssm_cfg": {"layer": "Mamba3"}}`: "ssm_cfg.layer: expected one of Mamba1, Mamba2, found Mamba3",
		`{"d_model": 6, "n_layer": 1, "vocab_size": 7, "ssm_cfg": {}, "attn_layer_idx": [3]}`: "attn_layer_idx: expected none, found a list: " +
			"layers of attention are not supported",
		`{"d_model": 6, "n_layer": 1, "vocab_size": 7, "ssm_cfg": {}, "d_intermediate": 5}`: "d_intermediate: expected 0, found 5",
		`{"d_model": 6, "n_layer": 1, "vocab_size": 7, "ssm_cfg": {"d_stat": 3}}`:           "ssm_cfg.d_stat: unknown key, did you mean d_state?",
		`{"d_model": 6, "n_layer": 1, "vocab_size": 7}`:                                     "model_type: is missing",
	} {
		if _, err := models.ParseConfig([]byte(text), "c"); err == nil || !strings.HasPrefix(err.Error(), "c: "+want) {
			t.Errorf("%s:\n got %v\nwant c: %s", text, err, want)
		}
	}
	parsed, err := models.ParseConfig([]byte(`{"model_type": "mamba", `+small+`}`), "c")
	if err != nil {
		t.Fatal(err)
	}
	w, err := mamba.Init(parsed.(*mamba.Config), 1)
	if err != nil {
		t.Fatal(err)
	}
	w["lm_head.weight"] = w["backbone.embeddings.weight"]
	if _, err := models.Build(parsed, w, models.BuildOptions{}); err != nil {
		t.Errorf("logits that are the embedding: %v", err)
	}
	w["lm_head.weight"] = tensor.New(tensor.Float32, 7, 6)
	if _, err := models.Build(parsed, w, models.BuildOptions{}); err == nil || !strings.Contains(err.Error(),
		"tensor lm_head.weight: expected the numbers of backbone.embeddings.weight") {
		t.Errorf("logits that differ from the embedding: %v", err)
	}
	if _, err := models.Build(parsed, w, models.BuildOptions{Rate: 2}); err == nil || !strings.Contains(err.Error(), "rate: ") {
		t.Errorf("rate 2: %v", err)
	}
}
