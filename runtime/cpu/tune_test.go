package cpu

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// TestSolveCosts checks that solveCosts, on the times that the estimates predict, returns the constants of the
// estimates.
func TestSolveCosts(t *testing.T) {
	for _, want := range []Costs{{Scan: 3, ComplexScan: 5, FFT: 1.6, Pass: 0.7, Call: 5000, Direct: 4, Output: 20,
		Dense: 1.6, Gemm: 6}, {Scan: 0.14, ComplexScan: 0.5, FFT: 0.2, Pass: 0.3, Call: 900, Direct: 20, Output: 5,
		Dense: 8, Gemm: 100}, DefaultCosts()} {
		expect := func(form string, steps, n, per, window int) float64 {
			return float64(problem{&record.RecurrenceInfo{N: n, PerHead: per, Window: window, Direction: essm.Forward,
				VIm: -1, XIm: -1, State: -1, StateOut: -1, Beside: true}, want, 1, steps, 64}.estimate(form).Time)
		}
		got := solveCosts(map[string]float64{
			"scan":         expect(essm.FormScan, scanSteps, scanSize, 1, 0),
			"complex scan": want.ComplexScan * scanSize * scanSteps,
			"fft":          expect(essm.FormFFT, fftSteps, convolutionSize, 1, 0),
			"direct":       expect(essm.FormDirect, directSteps, convolutionSize, 1, 0),
			"short direct": expect(essm.FormDirect, shortSteps, convolutionSize, 1, shortTaps),
			"dense":        expect(essm.FormScan, denseLen, denseSize, denseHead, 0),
			"tiny scan":    300, "tiny fft": 300 + want.Call*convolutionSize/besideGroup, "copy": want.Pass * copySize,
			"gemm": 2 * gemmRows * gemmSize * gemmSize / want.Gemm,
		})
		for i, f := range got.fields() {
			if w := *want.fields()[i].value; math.Abs(*f.value/w-1) > 0.01 {
				t.Errorf("%s: %g, expected %g", f.name, *f.value, w)
			}
		}
	}
}

// TestSolveCostsOfNonsense checks that contradictory measurements still lead to valid constants.
func TestSolveCostsOfNonsense(t *testing.T) {
	for _, v := range []float64{0, 1, math.Inf(1), math.NaN(), -5} {
		all := map[string]float64{}
		for _, k := range []string{"scan", "complex scan", "fft", "direct", "short direct", "dense", "tiny scan",
			"tiny fft", "copy", "gemm"} {
			all[k] = v
		}
		c := solveCosts(all)
		if err := c.Check(); err != nil {
			t.Errorf("from %g: %v", v, err)
		}
	}
}

func TestMeasureCosts(t *testing.T) {
	steps := 0
	c, err := MeasureCosts(context.Background(), func() { steps++ })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil || steps != TuneSteps {
		t.Errorf("%+v, %v; %d steps, expected %d", c, err, steps, TuneSteps)
	}
	t.Logf("%+v", c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := MeasureCosts(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestCostsDecide(t *testing.T) {
	s := system{batch: 1, length: 1, ch: 1, heads: 2, n: 8, h: 4, m: 4, direction: "forward"}
	g, _ := s.graph(t, 1)
	slow := DefaultCosts()
	slow.Scan = 1e4
	for form, backend := range map[string]runtime.Backend{"scan": New(), "fft": New(WithCosts(slow))} {
		m, err := runtime.New(g, runtime.Options{Backend: backend})
		if err != nil {
			t.Fatal(err)
		}
		c, err := m.Explain(map[string]int64{"B": 1, "L": 4096})
		if err != nil || len(c) != 1 || c[0].Form != form {
			t.Errorf("expected %s, found %+v, %v", form, c, err)
		}
	}
	var option *runtime.OptionError
	slow.FFT = math.NaN()
	if _, err := runtime.New(g, runtime.Options{Backend: New(WithCosts(slow))}); !errors.As(err, &option) {
		t.Errorf("NaN: %v", err)
	}
	if err := DefaultCosts().Check(); err != nil {
		t.Error(err)
	}
}

// compile compiles with default constants.
func compile(g *ir.Graph, c runtime.Config) (*program, error) {
	return backend{DefaultCosts()}.compile(g, c)
}
