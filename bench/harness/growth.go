package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func runGrowth(ctx context.Context, e *env, r *result) error {
	m, err := newModel(e, "sc35", [2]string{"layer.bidirectional", "false"})
	if err != nil {
		return err
	}
	most := 1 << 20
	if e.quick {
		most = 1 << 16
	}
	var all []contender
	var lengths []int
	var memory []float64
	for n := 1 << 10; n <= most; n *= 4 {
		e.progress("  %d steps", n)
		x, _, err := m.input(1, n)
		if err != nil {
			return err
		}
		o, err := newOurs(ctx, m.graph, map[string]tensor.Datum{m.inputName(): x}, runtime.Options{Threads: 1})
		if err != nil {
			return err
		}
		defer o.close()
		lengths = append(lengths, n)
		memory = append(memory, float64(o.session.Memory()))
		all = append(all, o.contender(ctx, short(float64(n))))
	}
	s, err := measure(ctx, e.effort(60*time.Second), all)
	if err != nil {
		return err
	}
	t := table{Header: []string{"steps", "time", "per step", "working memory"}}
	var x, y []float64
	l := line{name: "essmc, 1 thread"}
	for i, n := range lengths {
		samples := s.of(short(float64(n)))
		if samples == nil {
			return s.err(short(float64(n)))
		}
		t.add(short(float64(n)), seconds(samples), fmt.Sprintf("%.0f ns", median(samples)/float64(n)*1e9),
			fmt.Sprintf("%.1f MiB", memory[i]/(1<<20)))
		l.add(float64(n), median(samples)*1e3)
		if n >= 4096 {
			x, y = append(x, math.Log(float64(n))), append(y, math.Log(median(samples)))
		}
	}
	r.Tables = append(r.Tables, t)
	k := slope(x, y)
	last := len(memory) - 1
	grown := memory[last] / memory[min(2, last)]
	span := fmt.Sprintf("from %s to %s steps", short(float64(lengths[min(1, last)])), short(float64(lengths[last])))
	r.Verdicts = append(r.Verdicts,
		judge("time linear in length, "+span, "exponent 1 within 5%", fmt.Sprintf("%.3f", k), math.Abs(k-1) <= 0.05),
		judge("working memory of a causal model independent of length", "1×",
			fmt.Sprintf("%s× from %s to %s steps", number(grown), short(float64(lengths[min(2, last)])),
				short(float64(lengths[last]))), grown <= 1.1))
	f, err := drawFigure(e.dir, "growth.svg", "sc35 made causal, one sample", "steps", []line{l})
	r.Figures = append(r.Figures, f)
	return err
}

// slope returns the slope of a least-squares line.
func slope(x, y []float64) float64 {
	var mx, my float64
	for i := range x {
		mx, my = mx+x[i]/float64(len(x)), my+y[i]/float64(len(x))
	}
	var xy, xx float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
	}
	return xy / xx
}
