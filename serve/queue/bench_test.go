package queue

import (
	"sync"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// preset is the causal model of a preset.
func preset(b *testing.B, id string) *runtime.Model {
	b.Helper()
	for _, p := range models.Presets() {
		if p.ID != id {
			continue
		}
		if err := p.Config.Settings().Set("layer.bidirectional", "false"); err != nil {
			b.Fatal(err)
		}
		w, err := p.Init(p.Config, 1)
		if err != nil {
			b.Fatal(err)
		}
		g, err := models.Build(p.Config, w, models.BuildOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := passes.Optimize(g); err != nil {
			b.Fatal(err)
		}
		m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Threads: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { m.Close() })
		return m
	}
	b.Fatalf("no preset %s", id)
	return nil
}

// BenchmarkSteps measures a step of each of 64 live streams: together through a queue, and one by one.
func BenchmarkSteps(b *testing.B) {
	const n = 64
	for _, id := range []string{"smnist", "sc35"} {
		m := preset(b, id)
		streams := make([]*runtime.Stream, n)
		for i := range streams {
			s, err := m.NewStream(1)
			if err != nil {
				b.Fatal(err)
			}
			streams[i] = s
		}
		in := map[string]tensor.Datum{"input": tensor.New(tensor.Float32, 1, 1, 1)}
		b.Run(id+"/together", func(b *testing.B) {
			q, err := New(m, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer q.Close()
			for b.Loop() {
				var wg sync.WaitGroup
				for _, s := range streams {
					wg.Go(func() {
						if _, err := q.Step(b.Context(), s, in, 0); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
		})
		b.Run(id+"/one", func(b *testing.B) {
			for b.Loop() {
				for _, s := range streams {
					if err := s.Step(b.Context(), in, map[string]tensor.Datum{}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkRun measures 32 requests at a time: through a queue that joins them, and one by one.
func BenchmarkRun(b *testing.B) {
	const n = 32
	m := preset(b, "smnist")
	in := map[string]tensor.Datum{"input": tensor.New(tensor.Float32, 1, 8, 1)}
	for name, o := range map[string]Options{"joined": {}, "single": {Max: 1}} {
		b.Run(name, func(b *testing.B) {
			q, err := New(m, o)
			if err != nil {
				b.Fatal(err)
			}
			defer q.Close()
			for b.Loop() {
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						if _, err := q.Run(b.Context(), in, 0); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}
