package cpu

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// TestChoiceIsFast checks that measured constants choose a form that is about the fastest one.
func TestChoiceIsFast(t *testing.T) {
	if os.Getenv("ESSMC_LONG") == "" {
		t.Skip("measures for some seconds; ESSMC_LONG=1 runs it")
	}
	costs, err := MeasureCosts(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", costs)
	for _, c := range []struct {
		name    string
		n       int
		node    func(*ir.Builder, *ir.Value) *ir.Value
		lengths []int
	}{
		{"scan", 64, tuneScan(64), []int{16, 256, 4096}},
		{"both", 64, tuneScan(64, ir.A("direction", "bidirectional")), []int{16, 256, 4096}},
		{"window 8", 64, tuneScan(64, ir.A("window", int64(8))), []int{16, 256, 4096}},
		{"window 512", 64, tuneScan(64, ir.A("window", int64(512))), []int{256, 4096}},
		{"dense", denseSize, tuneDense, []int{16, 256, 2048}},
	} {
		for _, steps := range c.lengths {
			b := ir.NewBuilder("choice", ops.Default, ops.Opsets())
			b.Output("y", c.node(b, b.Input("x", ir.Tensor(tensor.Float32, "B", "L", c.n))))
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			m, err := runtime.New(g, runtime.Options{Backend: New(WithCosts(costs)), Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			choices, err := m.Explain(map[string]int64{"B": 1, "L": int64(steps)})
			if err != nil || len(choices) != 1 {
				t.Fatalf("%+v, %v", choices, err)
			}
			pick := choices[0]
			took, text := map[string]time.Duration{}, ""
			for _, a := range append([]runtime.Alternative{{Form: pick.Form, Cost: pick.Cost}}, pick.Others...) {
				if a.Why != "" {
					continue
				}
				if a.Cost.Time > 300*time.Millisecond {
					text += fmt.Sprintf("  %s: expected %v", a.Form, a.Cost.Time)
					continue
				}
				run, err := tuneRun(context.Background(), a.Form, steps, c.n, c.node)
				if err != nil {
					t.Fatal(err)
				}
				var times []time.Duration
				for range 7 {
					start := worktime.Now()
					if err := run(); err != nil {
						t.Fatal(err)
					}
					times = append(times, worktime.Now()-start)
				}
				took[a.Form] = slices.Min(times)
				text += fmt.Sprintf("  %s: expected %v, took %v;", a.Form, a.Cost.Time, took[a.Form])
			}
			least := took[pick.Form]
			for _, d := range took {
				least = min(least, d)
			}
			t.Logf("%s, %d steps: %s;%s", c.name, steps, pick.Form, text)
			if took[pick.Form] > 2*least {
				t.Errorf("%s, %d steps: %s takes %v, another form %v", c.name, steps, pick.Form, took[pick.Form], least)
			}
		}
	}
}
