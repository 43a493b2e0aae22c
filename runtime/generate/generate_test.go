package generate_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/generate"
)

// model returns the model of a preset with changes.
func model(t testing.TB, o runtime.Options, id, changes string) *runtime.Model {
	t.Helper()
	for _, p := range models.Presets() {
		if p.ID != id {
			continue
		}
		for _, s := range strings.Fields(changes) {
			key, value, _ := strings.Cut(s, "=")
			if err := p.Config.Settings().Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		w, err := p.Init(p.Config, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range w { // larger numbers, so that logits differ
			if x.Rank() == 2 {
				for i := range tensor.Data[float32](x) {
					tensor.Data[float32](x)[i] *= 3
				}
			}
		}
		g, err := models.Build(p.Config, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := open.Graph(g, id, open.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o.Backend = cpu.New()
		r, err := m.Compile(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	t.Fatalf("no preset %s", id)
	return nil
}

const small = "vocab_size=23 hidden_size=8 num_hidden_layers=2 state_size=4"

func collect(t *testing.T, m *runtime.Model, prompt []int64, o generate.Options) []int64 {
	t.Helper()
	var all []int64
	for k, err := range generate.Tokens(context.Background(), m, prompt, o) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	return all
}

// TestGreedy checks tokens against the logits of the whole text, for short prompts and for those that are read in chunks.
func TestGreedy(t *testing.T) {
	m := model(t, runtime.Options{}, "mamba-130m", small)
	for _, n := range []int{1, 5, 1300} {
		prompt := make([]int64, n)
		for i := range prompt {
			prompt[i] = int64(i*i*7+3*i) % 23
		}
		got := collect(t, m, prompt, generate.Options{MaxNewTokens: 12})
		if len(got) != 12 {
			t.Fatalf("%d tokens", len(got))
		}
		all := append(slices.Clone(prompt), got...)
		out, err := m.NewSession().Run(context.Background(), map[string]tensor.Datum{models.Input: tensor.FromSlice(all, 1, len(all))})
		if err != nil {
			t.Fatal(err)
		}
		logits := tensor.Data[float32](out[models.Output].(*tensor.Tensor))
		for i, k := range got {
			row := logits[(n-1+i)*23:][:23]
			if most := slices.Max(row); row[k] < most-1e-4*float32(math.Abs(float64(most))) {
				t.Fatalf("prompt of %d, token %d: %d has logit %v, the largest is %v", n, i, k, row[k], most)
			}
		}
	}
}

// TestDraw checks that equal seeds give equal text, that settings leave what they should, and how often tokens are drawn.
func TestDraw(t *testing.T) {
	m := model(t, runtime.Options{}, "mamba-130m", small)
	prompt := []int64{1, 2, 3}
	o := generate.Options{MaxNewTokens: 30, Temperature: 1.5, Seed: 7}
	first := collect(t, m, prompt, o)
	if !slices.Equal(first, collect(t, m, prompt, o)) {
		t.Error("the same seed gives another text")
	}
	o.Seed = 8
	if slices.Equal(first, collect(t, m, prompt, o)) {
		t.Error("another seed gives the same text")
	}
	greedy := collect(t, m, prompt, generate.Options{MaxNewTokens: 30})
	for _, o := range []generate.Options{{Temperature: 1, TopK: 1}, {Temperature: 1, TopP: 1e-9}, {Temperature: 1e-9}} {
		o.MaxNewTokens = 30
		if !slices.Equal(collect(t, m, prompt, o), greedy) {
			t.Errorf("%+v: not the most probable tokens", o)
		}
	}
	// One token from many seeds: frequencies are the probabilities.
	g, err := generate.New(m)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Feed(context.Background(), prompt); err != nil {
		t.Fatal(err)
	}
	logits := slices.Clone(g.Logits())
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, float64(logits[b]-logits[a]))) })
	for _, o := range []generate.Options{{Temperature: 2}, {Temperature: 2, TopK: 3}, {Temperature: 2, TopP: 0.7}} {
		want, total := make([]float64, len(logits)), 0.0
		for _, v := range logits {
			total += math.Exp(float64(v) / 2)
		}
		kept := 0.0
		for n, i := range order {
			if o.TopK > 0 && n >= o.TopK || o.TopP > 0 && kept >= o.TopP {
				break
			}
			want[i] = math.Exp(float64(logits[i])/2) / total
			kept += want[i]
		}
		const draws = 4000
		count := make([]float64, len(logits))
		for seed := range uint64(draws) {
			o.Seed, o.MaxNewTokens = seed, 1
			for k, err := range g.Tokens(context.Background(), nil, o) {
				if err != nil {
					t.Fatal(err)
				}
				count[k]++
			}
		}
		for i := range want {
			p := want[i] / kept
			if d := math.Abs(count[i]/draws - p); d > 5*math.Sqrt(p*(1-p)/draws)+1e-9 {
				t.Errorf("%+v: token %d is drawn %.3f of the time, expected %.3f", o, i, count[i]/draws, p)
			}
		}
	}
}

// TestStop ends at a token that stops, and when the caller does.
func TestStop(t *testing.T) {
	m := model(t, runtime.Options{}, "mamba-130m", small)
	all := collect(t, m, []int64{4}, generate.Options{Temperature: 3, Seed: 1})
	if len(all) != generate.DefaultTokens {
		t.Fatalf("%d tokens", len(all))
	}
	at := slices.Index(all, all[9])
	if got := collect(t, m, []int64{4}, generate.Options{Temperature: 3, Seed: 1, Stop: []int64{all[9]}}); !slices.Equal(got, all[:at]) {
		t.Errorf("stopped after %d tokens, expected %d", len(got), at)
	}
	for range generate.Tokens(context.Background(), m, []int64{4}, generate.Options{}) {
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	for _, err := range generate.Tokens(ctx, m, []int64{4}, generate.Options{}) {
		if n++; n == 3 {
			cancel()
		}
		if n > 3 && !errors.Is(err, context.Canceled) {
			t.Fatalf("token %d after the end: %v", n, err)
		}
	}
	if n != 4 {
		t.Errorf("%d elements", n)
	}
}

// TestRefused checks that what cannot be continued is said before the first token.
func TestRefused(t *testing.T) {
	m := model(t, runtime.Options{}, "mamba-130m", small)
	for _, c := range []struct {
		m      *runtime.Model
		prompt []int64
		o      generate.Options
		want   string
	}{
		{m, nil, generate.Options{}, "prompt: expected at least one token, found none"},
		{m, []int64{1, 23}, generate.Options{}, "prompt: token 1 is 23, which is outside of the vocabulary, 0 to 22"},
		{m, []int64{-1}, generate.Options{}, "prompt: token 0 is -1"},
		{m, []int64{1}, generate.Options{MaxNewTokens: generate.MaxTokens + 1}, "max new tokens: expected 0 to 16777216"},
		{m, []int64{1}, generate.Options{MaxNewTokens: generate.MaxTokens}, "prompt: expected at most 16777216 tokens in all"},
		{m, []int64{1}, generate.Options{MaxNewTokens: -1}, "max new tokens: expected 0 to 16777216, found -1"},
		{m, []int64{1}, generate.Options{Temperature: -1}, "temperature: expected a number of at least 0, found -1"},
		{m, []int64{1}, generate.Options{Temperature: math.NaN()}, "temperature: "},
		{m, []int64{1}, generate.Options{TopK: 5}, "temperature: expected a number above 0"},
		{m, []int64{1}, generate.Options{Temperature: 1, TopK: -5}, "top k: expected at least 0, found -5"},
		{m, []int64{1}, generate.Options{Temperature: 1, TopP: 2}, "top p: expected a number from 0 to 1, found 2"},
		{model(t, runtime.Options{}, "s4d-cifar", "model.d_model=4"), []int64{1}, generate.Options{},
			"model: not a language model: expected one input of tokens, int64[B,L], and logits at every step, float[B,L,V]; found " +
				"input input, float[B,L,3]"},
		{model(t, runtime.Options{}, "transformer-text", "model.d_model=8 model.n_layers=1 model.layer.0.n_heads=2"), []int64{1},
			generate.Options{}, "found one that cannot run step by step: graph transformer has no step graph"},
		{model(t, runtime.Options{MaxMemory: 1 << 19}, "mamba-130m", "vocab_size=9 hidden_size=64 num_hidden_layers=1 state_size=512"),
			[]int64{1}, generate.Options{}, "needs 525824 bytes of memory, the limit is 524288"},
	} {
		n := 0
		for k, err := range generate.Tokens(context.Background(), c.m, c.prompt, c.o) {
			n++
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found token %d and %v, expected %s", k, err, c.want)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d elements", c.want, n)
		}
	}
}
