package runs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/faults"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families"
)

// example returns a checkpoint of a small model.
func example(t *testing.T, step int64, metric float64) *Checkpoint {
	t.Helper()
	for _, p := range models.Presets() {
		if p.ID != "smnist" {
			continue
		}
		w, err := p.Init(p.Config, uint64(step))
		if err != nil {
			t.Fatal(err)
		}
		c := &Checkpoint{Config: p.Config, Model: w, Tensors: map[string]*tensor.Tensor{},
			State: State{Step: step, Recipe: []byte(`{"seed": 7}`), Training: []byte(`{"epoch": 3}`)}}
		for name, v := range w {
			c.Tensors["exp_avg."+name] = v
		}
		n := Number(metric)
		c.State.Metric = &n
		return c
	}
	t.Fatal("no preset smnist")
	return nil
}

func TestRoundTrip(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	want := example(t, 1000, math.NaN())
	dir, err := Write(run, want)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(run, want); err == nil || !strings.Contains(err.Error(), "another step") {
		t.Errorf("a second checkpoint of the step: expected an error, found %v", err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Model) != len(want.Model) || len(got.Tensors) != len(want.Tensors) {
		t.Fatalf("expected %d and %d tensors, found %d and %d", len(want.Model), len(want.Tensors), len(got.Model), len(got.Tensors))
	}
	for name, v := range want.Model {
		if !tensor.Equal(got.Model[name], v) || !tensor.Equal(got.Tensors["exp_avg."+name], v) {
			t.Errorf("tensor %s has changed", name)
		}
	}
	if !math.IsNaN(float64(*got.State.Metric)) || got.State.Step != 1000 || strings.Join(strings.Fields(string(got.State.Training)), "") != `{"epoch":3}` {
		t.Errorf("state %+v", got.State)
	}
}

func TestListBestPrune(t *testing.T) {
	run := t.TempDir()
	if e, ok, err := Last(filepath.Join(run, "none")); ok || err != nil {
		t.Errorf("a run that is not there: %v, %v", e, err)
	}
	for i, metric := range []float64{0.5, 0.9, math.NaN(), 0.9, 0.7} {
		if _, err := Write(run, example(t, int64(i+1)*10, metric)); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"step-x", "step-5", ".step-0000000060.0badcafe.tmp", "notes"} {
		if err := os.Mkdir(filepath.Join(run, other), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if e, ok, err := Last(run); !ok || err != nil || e.Step != 50 {
		t.Errorf("last: %v, %v", e, err)
	}
	if e, m, ok, err := Best(run, true); !ok || err != nil || e.Step != 20 || m != 0.9 {
		t.Errorf("the earliest of the largest: %v, %g, %v", e, m, err)
	}
	if e, m, ok, err := Best(run, false); !ok || err != nil || e.Step != 10 || m != 0.5 {
		t.Errorf("the smallest: %v, %g, %v", e, m, err)
	}
	if err := Prune(run, 2, 1, true); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(run)
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	if want := "notes step-0000000020 step-0000000040 step-0000000050 step-5 step-x"; err != nil || strings.Join(names, " ") != want {
		t.Errorf("expected %s, found %s", want, names)
	}
}

// TestFaults lets each operation of Write fail in turn. The checkpoint before stays the last one, and whole.
func TestFaults(t *testing.T) {
	before, next := example(t, 10, 1), example(t, 20, 1)
	for _, mode := range faults.Writing {
		for k := 0; ; k++ {
			run := filepath.Join(t.TempDir(), "run")
			if _, err := Write(run, before); err != nil {
				t.Fatal(err)
			}
			var dir string
			var err error
			op, path := mode.At(k, func() { dir, err = Write(run, next) })
			if path == "" {
				break
			}
			last, _, lastErr := Last(run)
			if lastErr != nil {
				t.Fatal(lastErr)
			}
			what := fmt.Sprintf("%s: %v %s", mode.Name, op, path)
			if err != nil && (last.Step != 10 || strings.Contains(err.Error(), ".tmp")) {
				t.Errorf("%s: the last checkpoint is %v after the error %v", what, last, err)
			}
			if err == nil && last.Dir != dir {
				t.Errorf("%s: the last checkpoint is %v", what, last)
			}
			if _, err := Read(last.Dir); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

func TestBadState(t *testing.T) {
	dir, err := Write(t.TempDir(), example(t, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, StateName)
	for text, want := range map[string]string{
		`{"version": 2, "step": 1}`:               "version 2",
		`{"version": 1, "step": -1}`:              "found -1",
		`{"version": 1, "steps": 1}`:              "steps",
		`{"version": 1, "step": 1, "metric": []}`: StateName,
		`{`: StateName,
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), StateName) {
			t.Errorf("%s: expected an error with %q that names the file, found %v", text, want, err)
		}
	}
}
