package schedule

import (
	"math"
	"strings"
	"testing"
)

func TestRates(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Schedule
		want map[int64]float64 // for a base rate of 0.1
	}{
		{"constant", Constant{}, map[int64]float64{0: 0.1, 1000: 0.1}},
		{"step", Step{Size: 30, Gamma: 0.1}, map[int64]float64{0: 0.1, 29: 0.1, 30: 0.01, 59: 0.01, 60: 0.001}},
		{"cosine", Cosine{Steps: 100, Min: 0.02},
			map[int64]float64{0: 0.1, 25: 0.02 + 0.08*(1+math.Sqrt2/2)/2, 50: 0.06, 100: 0.02, 150: 0.02}},
		{"warm-up", Warmup{Steps: 4, Start: 0.25, Then: Cosine{Steps: 10}},
			map[int64]float64{0: 0.025, 1: 0.04375, 2: 0.0625, 3: 0.08125, 4: 0.1, 9: 0.05, 14: 0}},
	} {
		for step, want := range c.want {
			if got := c.s.Rate(0.1, step); math.Abs(got-want) > 1e-15 {
				t.Errorf("%s, step %d: expected %g, found %g", c.name, step, want, got)
			}
		}
	}
}

// TestPlateau follows a trace: which evaluations reduce the rate.
func TestPlateau(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       Plateau
		metrics []float64
		rates   []float64 // after each evaluation
	}{
		{"the third evaluation without an improvement", Plateau{Factor: 0.5, Patience: 2, Threshold: 1e-4, Eps: 1e-8},
			[]float64{1, 1, 1, 1, 1, 1, 1}, []float64{1, 1, 1, 0.5, 0.5, 0.5, 0.25}},
		{"improvements within the threshold do not count", Plateau{Factor: 0.5, Threshold: 0.1, Eps: 1e-8},
			[]float64{1, 0.95, 0.89, 0.81}, []float64{1, 0.5, 0.5, 0.25}},
		{"cooldown", Plateau{Factor: 0.5, Cooldown: 2, Eps: 1e-8},
			[]float64{1, 1, 1, 1, 1, 1}, []float64{1, 0.5, 0.5, 0.5, 0.25, 0.25}},
		{"larger is better", Plateau{Max: true, Factor: 0.5, Threshold: 0.1, Absolute: true, Eps: 1e-8},
			[]float64{0.5, 0.65, 0.7, 0.8}, []float64{1, 1, 0.5, 0.5}},
		{"the least rate, and reductions too small", Plateau{Factor: 0.1, Min: 0.05, Eps: 1e-8},
			[]float64{1, 1, 1, 1}, []float64{1, 0.1, 0.05, 0.05}},
		{"NaN and infinity", Plateau{Factor: 0.5, Eps: 1e-8},
			[]float64{math.NaN(), math.Inf(1), 3, math.NaN()}, []float64{0.5, 0.5, 0.5, 0.25}},
	} {
		for i, m := range c.metrics {
			c.p.Observe(m)
			if got := c.p.Rate(1, 0); math.Abs(got-c.rates[i]) > 1e-15 {
				t.Errorf("%s: after evaluation %d: expected %g, found %g", c.name, i, c.rates[i], got)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, s := range []Schedule{Step{}, Cosine{}, Warmup{Start: 2, Then: Constant{}}, Warmup{Start: 1},
		Warmup{Start: 1, Then: Step{}}, &Plateau{}} {
		if err := Check(s); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%#v: expected an error that says what was expected, found %v", s, err)
		}
	}
	for _, s := range []Schedule{Constant{}, Step{1, 0.5}, Warmup{10, 0.1, Cosine{Steps: 5}}, NewPlateau()} {
		if err := Check(s); err != nil {
			t.Errorf("%#v: %v", s, err)
		}
	}
}
