package train_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/train"
	"github.com/essmc/essmc/train/optim"
	"github.com/essmc/essmc/train/schedule"
)

// small returns the graph of a small model of 10 classes, with parameters.
func small(t testing.TB, seed uint64) *ir.Graph {
	t.Helper()
	for _, p := range models.Presets() {
		if p.ID != "smnist" {
			continue
		}
		for _, set := range []string{"d_model=16", "n_layers=2", "layer.heads=4", "layer.d_state=16"} {
			key, value, _ := strings.Cut(set, "=")
			if err := p.Config.Settings().Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		w, err := p.Init(p.Config, seed)
		if err != nil {
			t.Fatal(err)
		}
		g, err := models.Build(p.Config, w, models.BuildOptions{Parameters: func(string) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	t.Fatal("no preset smnist")
	return nil
}

// batch returns sequences whose class is the step, of ten parts of the sequence, at which they jump.
func batch(n, steps int, seed uint64) map[string]tensor.Datum {
	r := rand.New(rand.NewPCG(seed, 1))
	x, labels := make([]float32, n*steps), make([]int64, n)
	for b := range n {
		labels[b] = int64(r.IntN(10))
		for i := range steps {
			x[b*steps+i] = float32(0.1 * r.NormFloat64())
			if i >= int(labels[b])*steps/10 {
				x[b*steps+i]++
			}
		}
	}
	return map[string]tensor.Datum{models.Input: tensor.FromSlice(x, n, steps, 1), train.Labels: tensor.FromSlice(labels, n)}
}

func options(threads int) train.Options {
	adam := optim.NewAdamW()
	return train.Options{Loss: train.CrossEntropy{Smoothing: 0.05}, Backend: cpu.New(), Threads: threads, ClipNorm: 1, Average: 0.9,
		Groups: []train.Group{{Name: "ssm", Patterns: []string{"*.Lambda", "*.log_dt"}, Rule: adam, Rate: 2e-3},
			{Name: "others", Rule: adam, Rate: 1e-2}},
		Schedule: schedule.Warmup{Steps: 5, Start: 0.2, Then: schedule.Cosine{Steps: 100}}}
}

func newTrainer(t testing.TB, g *ir.Graph, o train.Options) *train.Trainer {
	t.Helper()
	tr, err := train.New(t.Context(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// steps does steps from to up to before to, and returns the last report.
func steps(t testing.TB, tr *train.Trainer, from, to int) (r train.Report) {
	t.Helper()
	for i := from; i < to; i++ {
		var err error
		if r, err = tr.Step(t.Context(), batch(16, 60, uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func sameWeights(t *testing.T, what string, a, b *train.Trainer) {
	t.Helper()
	x, err := a.Weights()
	y, err2 := b.Weights()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for name := range x {
		if !tensor.Equal(x[name], y[name]) {
			t.Errorf("%s: parameter %s differs", what, name)
		}
	}
}

func TestLearns(t *testing.T) {
	tr := newTrainer(t, small(t, 1), options(1))
	first, last := steps(t, tr, 0, 1), steps(t, tr, 1, 60)
	if !(last.Loss < first.Loss/2) || last.Step != 60 {
		t.Errorf("loss %g at first, %g after %d steps", first.Loss, last.Loss, last.Step)
	}
}

// TestResume continues from a state, and compares with a run that was not interrupted; and runs on 2 threads with those on 1.
func TestResume(t *testing.T) {
	whole, part := newTrainer(t, small(t, 1), options(1)), newTrainer(t, small(t, 1), options(2))
	steps(t, whole, 0, 20)
	steps(t, part, 0, 11)
	w, err := part.Weights()
	if err != nil {
		t.Fatal(err)
	}
	s, err := part.State()
	if err != nil {
		t.Fatal(err)
	}
	resumed := newTrainer(t, small(t, 2), options(2))
	if err := resumed.Restore(t.Context(), w, s); err != nil {
		t.Fatal(err)
	}
	steps(t, resumed, 11, 20)
	sameWeights(t, "resumed on 2 threads, undisturbed on 1", resumed, whole)
	x, err := resumed.Averages()
	y, err2 := whole.Averages()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	differ := false
	now, _ := whole.Weights()
	for name := range x {
		if !tensor.Equal(x[name], y[name]) {
			t.Errorf("average of %s differs", name)
		}
		differ = differ || !tensor.Equal(x[name], now[name])
	}
	if !differ {
		t.Error("averages are the parameters")
	}
	delete(w, "encoder.weight")
	if err := resumed.Restore(t.Context(), w, s); err == nil || !strings.Contains(err.Error(), "encoder.weight") {
		t.Errorf("a state that lacks a parameter: %v", err)
	}
}

// TestSkips gives a batch with NaN: nothing changes, not the running statistics either.
func TestSkips(t *testing.T) {
	a, b := newTrainer(t, small(t, 1), options(1)), newTrainer(t, small(t, 1), options(1))
	steps(t, a, 0, 3)
	steps(t, b, 0, 3)
	bad := batch(16, 60, 3)
	tensor.Data[float32](bad[models.Input].(*tensor.Tensor))[7] = float32(math.NaN())
	r, err := b.Step(t.Context(), bad)
	if err != nil || !r.Skipped {
		t.Fatalf("%+v, %v", r, err)
	}
	sameWeights(t, "a step that was skipped", a, b)
	for i := 0; ; i++ {
		if r, err = b.Step(t.Context(), bad); err != nil {
			break
		}
		if i > 20 {
			t.Fatal("no error after 20 steps")
		}
	}
	if !strings.Contains(err.Error(), "not finite") {
		t.Error(err)
	}
	sameWeights(t, "steps that were skipped", a, b)
}

func TestErrors(t *testing.T) {
	g := small(t, 1)
	for _, c := range []struct {
		change func(o *train.Options)
		want   string
	}{
		{func(o *train.Options) { o.Loss = nil }, "expected a loss"},
		{func(o *train.Options) { o.Groups[0].Patterns = []string{"*.lambda"} }, "*.lambda"},
		{func(o *train.Options) { o.Groups = o.Groups[:1] }, "no group selects it"},
		{func(o *train.Options) { o.Groups[1].Rate = -1 }, "rate of 0 or more"},
		{func(o *train.Options) { o.Groups[1].Rule = optim.AdamW{Beta1: 1} }, "betas"},
		{func(o *train.Options) { o.Groups, o.Frozen = o.Groups[1:], []string{"*"} }, "no parameter is left"},
		{func(o *train.Options) { o.Loss = train.CrossEntropy{Smoothing: 1} }, "smoothing"},
		{func(o *train.Options) { o.Schedule = schedule.Cosine{} }, "cosine"},
	} {
		o := options(1)
		c.change(&o)
		if _, err := train.New(t.Context(), g, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("expected %q, found %v", c.want, err)
		}
	}
	tr := newTrainer(t, g, options(1))
	bad := batch(4, 60, 1)
	bad[train.Labels] = tensor.FromSlice([]int64{0, 1, 10, 2}, 4)
	before, err := tr.Weights()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Step(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "step 1") ||
		!strings.Contains(err.Error(), "10") {
		t.Errorf("a label out of range: expected an error with the step and the label, found %v", err)
	}
	after, err := tr.Weights()
	if err != nil {
		t.Fatal(err)
	}
	for name := range before {
		if !tensor.Equal(before[name], after[name]) {
			t.Errorf("a step that fails has changed %s", name)
		}
	}
}
