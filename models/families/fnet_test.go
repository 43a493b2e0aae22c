package families_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/models"
)

const smallFNet = "vocab_size=9 hidden_size=6 num_hidden_layers=2 intermediate_size=8 max_position_embeddings=13 "

func init() {
	for _, changes := range []string{"architectures=FNetForMaskedLM", "hidden_act=relu architectures=FNetForSequenceClassification",
		"hidden_size=7 L=1 architectures=FNetForSequenceClassification", "hidden_act=gelu L=8 architectures=FNetForMaskedLM"} {
		plains = append(plains, plain{"fnet-base", smallFNet + changes, evalFNet})
	}
}

// evalFNet computes FNet with the Fourier transform as a double sum.
func evalFNet(e *evaluation) []float64 {
	act := map[string]func(float64) float64{"": geluTanh, "relu": func(x float64) float64 { return max(x, 0) },
		"gelu": func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }}[e.set["hidden_act"]]
	norm := func(x []float64, name string) []float64 {
		return e.layerNorm(x, name+".LayerNorm.weight", name+".LayerNorm.bias", 1e-12)
	}
	linear := func(x []float64, name string) []float64 { return e.linear(x, name+".weight", name+".bias", false) }
	var out []float64
	for b := range e.batch {
		x := e.sequence(b, "fnet.embeddings.word_embeddings.weight")
		types, _ := e.weight("fnet.embeddings.token_type_embeddings.weight")
		positions, _ := e.weight("fnet.embeddings.position_embeddings.weight")
		d := len(x[0])
		for t := range x {
			for c := range x[t] {
				x[t][c] += types[c] + positions[t*d+c]
			}
			x[t] = linear(norm(x[t], "fnet.embeddings"), "fnet.embeddings.projection")
		}
		for i := 0; e.has(numbered("fnet.encoder.layer.%d.output.dense.bias", i)); i++ {
			name := numbered("fnet.encoder.layer.%d.", i)
			y := make([][]float64, len(x))
			for k := range x {
				y[k] = make([]float64, d)
				for m := range d {
					for t := range x {
						for j, v := range x[t] {
							y[k][m] += v * math.Cos(2*math.Pi*(float64(k*t)/float64(len(x))+float64(m*j)/float64(d)))
						}
					}
				}
			}
			for t := range x {
				x[t] = norm(sum(x[t], y[t]), name+"fourier.output")
				h := linear(x[t], name+"intermediate.dense")
				for c := range h {
					h[c] = act(h[c])
				}
				x[t] = norm(sum(x[t], linear(h, name+"output.dense")), name+"output")
			}
		}
		if e.has("classifier.bias") {
			h := linear(x[0], "fnet.pooler.dense")
			for c := range h {
				h[c] = math.Tanh(h[c])
			}
			out = append(out, linear(h, "classifier")...)
			continue
		}
		for t := range x {
			h := linear(x[t], "cls.predictions.transform.dense")
			for c := range h {
				h[c] = act(h[c])
			}
			h = norm(h, "cls.predictions.transform")
			out = append(out, e.linear(h, "fnet.embeddings.word_embeddings.weight", "cls.predictions.bias", false)...)
		}
	}
	return out
}

// TestFNetSizes checks the sizes of the presets, with the pooler, in millions.
func TestFNetSizes(t *testing.T) {
	for id, want := range map[string]int{"fnet-base": 83, "fnet-large": 238} {
		c := preset(t, id).Config
		n, err := models.Parameters(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := c.Common().Width
		if n += d*d + d; (n+500_000)/1_000_000 != want {
			t.Errorf("%s has %d parameters, expected %d million", id, n, want)
		}
	}
}

// TestFNetPretraining checks that tensors which a masked model does not use are left out, and no others.
func TestFNetPretraining(t *testing.T) {
	p := preset(t, "fnet-base")
	for _, s := range []string{"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"} {
		if err := p.Config.Settings().Set(s, "8"); err != nil {
			t.Fatal(err)
		}
	}
	w, err := p.Init(p.Config, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fnet.pooler.dense.weight", "cls.predictions.decoder.bias", "cls.seq_relationship.bias",
		"fnet.embeddings.position_ids"} {
		w[name] = w["cls.predictions.bias"]
	}
	if err := models.Check(p.Config, w); err != nil {
		t.Error(err)
	}
	w["cls.prediction.bias"] = w["cls.predictions.bias"]
	if err := models.Check(p.Config, w); err == nil || err.Error() != "tensor cls.prediction.bias: is not part of the model" {
		t.Errorf("found %v", err)
	}
}

// TestFNetRefused checks the messages about directories of hubs that are no model here.
func TestFNetRefused(t *testing.T) {
	const fnets = "FNetForSequenceClassification, FNetForMaskedLM, FNetModel, FNetForPreTraining, FNetForNextSentencePrediction, " +
		"FNetForMultipleChoice, FNetForTokenClassification, FNetForQuestionAnswering"
	for text, want := range map[string]string{
		`"architectures": ["FNetForX"]`: "c: architectures: expected a list with one of " + fnets + ", found FNetForX",
		`"architectures": "FNetForMaskedLM"`: "c: architectures: expected a list with one of " + fnets +
			", found \"FNetForMaskedLM\"",
		`"hidden_sise": 3, "architectures": ["FNetForMaskedLM"]`: "c: hidden_sise: unknown key, did you mean hidden_size?",
		`"hidden_size": 3`: "c: architectures: is missing, expected a list with one of " + fnets,
		`"architectures": ["FNetForMaskedLM"], "tie_word_embeddings": false`: "c: tie_word_embeddings: expected true, found false: " +
			"the word embedding is the last matrix of a masked model",
		`"architectures": ["FNetForSequenceClassification"], "num_labels": 3, "id2label": {"0": "a", "1": "b"}`: "c: id2label: expected 3 names (num_labels), found 2",
	} {
		_, err := models.ParseConfig([]byte(`{"model_type": "fnet", `+text+`}`), "c")
		if err == nil || err.Error() != want {
			t.Errorf("%s:\nfound %v\nwant  %s", text, err, want)
		}
	}
}
