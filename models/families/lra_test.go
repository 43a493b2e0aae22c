package families_test

import (
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

const smallLRA = "vocab_size=9 emb_dim=6 num_heads=2 num_layers=2 qkv_dim=8 mlp_dim=10 max_len=20 num_classes=3 "

func init() {
	for _, changes := range []string{"", "classifier_pool=MEAN tied_weights=false", "classifier_pool=SUM learn_pos_emb=true L=20",
		"classifier=false", "learn_pos_emb=true num_heads=1 emb_dim=5 tied_weights=false L=1"} {
		plains = append(plains, plain{"lra-listops", smallLRA + changes, evalLRA})
	}
}

// evalLRA computes the Transformer, with padding that has no part in the sums.
func evalLRA(e *evaluation) []float64 {
	norm := func(x []float64, name string) []float64 { return e.layerNorm(x, name+".scale", name+".bias", 1e-6) }
	linear := func(x []float64, name string) []float64 { return e.linear(x, name+".kernel", name+".bias", true) }
	heads := 2
	if e.set["num_heads"] == "1" {
		heads = 1
	}
	var out []float64
	for b := range e.batch {
		x := e.sequence(b, "Embed_0.embedding")
		var real []bool
		for _, k := range tensor.Data[int64](e.in[models.Input].(*tensor.Tensor))[b*e.length : (b+1)*e.length] {
			real = append(real, k > 0)
		}
		if e.has("cls") {
			cls, _ := e.weight("cls")
			x, real = slices.Insert(x, 0, slices.Clone(cls)), slices.Insert(real, 0, real[0])
		}
		d := len(x[0])
		for t := range x {
			for c := range x[t] {
				if e.has("posembed_input.pos_embedding") {
					table, _ := e.weight("posembed_input.pos_embedding")
					x[t][c] += table[t*d+c]
					continue
				}
				angle := float64(t) * math.Pow(10000, -float64(c-c%2)/float64(d))
				if x[t][c] += math.Sin(angle); c%2 == 1 {
					x[t][c] += math.Cos(angle) - math.Sin(angle)
				}
			}
		}
		for i := range 2 {
			name := numbered("encoderblock_%d.", i)
			if !e.has(name + "LayerNorm_0.scale") {
				name = "encoderblock."
			}
			y := make([][]float64, len(x))
			for t := range x {
				y[t] = norm(x[t], name+"LayerNorm_0")
			}
			for t, z := range attendLRA(e, y, real, heads, name+"SelfAttention_1.") {
				x[t] = sum(x[t], z)
				h := linear(norm(x[t], name+"LayerNorm_2"), name+"MlpBlock_3.Dense_0")
				for c := range h {
					h[c] = geluTanh(h[c])
				}
				x[t] = sum(x[t], linear(h, name+"MlpBlock_3.Dense_1"))
			}
		}
		total := make([]float64, d)
		for t := range x {
			x[t] = norm(x[t], "encoder_norm")
			total = sum(total, x[t])
		}
		switch {
		case e.set["classifier"] == "false":
			out = append(out, slices.Concat(x...)...)
			continue
		case e.has("cls"):
			total = x[0]
		case e.set["classifier_pool"] == "MEAN":
			for c := range total {
				total[c] /= float64(len(x))
			}
		}
		h := linear(total, "mlp")
		for c := range h {
			h[c] = max(h[c], 0)
		}
		out = append(out, linear(h, "logits")...)
	}
	return out
}

func attendLRA(e *evaluation, x [][]float64, real []bool, heads int, prefix string) [][]float64 {
	var q, k, v [][]float64
	for _, z := range x {
		q = append(q, e.linear(z, prefix+"query.kernel", "", true))
		k = append(k, e.linear(z, prefix+"key.kernel", "", true))
		v = append(v, e.linear(z, prefix+"value.kernel", "", true))
	}
	width := len(q[0]) / heads
	out := make([][]float64, len(x))
	for t := range x {
		y := make([]float64, len(q[t]))
		for h := range heads {
			weights, total := make([]float64, len(x)), 0.0
			for j := range x {
				switch {
				case !real[t]:
					weights[j] = 1
				case real[j]:
					score := 0.0
					for c := h * width; c < (h+1)*width; c++ {
						score += q[t][c] * k[j][c]
					}
					weights[j] = math.Exp(score / math.Sqrt(float64(width)))
				}
				total += weights[j]
			}
			for j, w := range weights {
				for c := h * width; c < (h+1)*width; c++ {
					y[c] += w / total * v[j][c]
				}
			}
		}
		out[t] = e.linear(y, prefix+"out.kernel", "", true)
	}
	return out
}

// TestLRARefused checks messages about keys.
func TestLRARefused(t *testing.T) {
	for changes, want := range map[string]string{
		"num_heads=3":             "num_heads: expected a divisor of qkv_dim 512, found 3",
		"emb_dim=511":             "emb_dim: expected an even number, for as many sines as cosines, found 511",
		"classifier_pool=FLATTEN": "classifier_pool: expected one of CLS, MEAN, SUM, found FLATTEN",
		"max_len=600000":          "max_len: expected at most 524288 steps of 512 sinusoids, found 600000",
		"num_haeds=3":             "num_haeds: unknown key, did you mean num_heads?",
	} {
		p := preset(t, "lra-listops")
		refused(t, p.Config, changes, want)
	}
}
