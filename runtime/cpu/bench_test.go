package cpu_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// network returns an optimised model with random weights.
func network(t testing.TB, c *essm.Config) *ir.Graph {
	t.Helper()
	w, err := essm.Init(c, essm.InitOptions{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := passes.Optimize(g); err != nil {
		t.Fatal(err)
	}
	return g
}

// noise returns random inputs for a graph: tokens 0 to 3, and numbers between -1 and 1.
func noise(g *ir.Graph, dims map[string]int64) map[string]tensor.Datum {
	in := map[string]tensor.Datum{}
	for _, v := range g.Inputs {
		tt, ok := v.Type.(*ir.TensorType)
		if !ok {
			continue // optional
		}
		var shape []int
		for _, d := range tt.Shape {
			k, _ := d.Eval(dims)
			shape = append(shape, int(k))
		}
		t := tensor.New(tt.Elem, shape...)
		x := uint32(1)
		next := func() uint32 {
			x = x*1664525 + 1013904223
			return x >> 8
		}
		if tt.Elem == tensor.Int64 {
			for i := range tensor.Data[int64](t) {
				tensor.Data[int64](t)[i] = int64(next() % 4)
			}
		} else {
			for i := range tensor.Data[float32](t) {
				tensor.Data[float32](t)[i] = float32(next())/(1<<23) - 1
			}
		}
		in[v.Name] = t
	}
	return in
}

// measure runs a graph b.N times.
func measure(b *testing.B, g *ir.Graph, o runtime.Options, dims map[string]int64) {
	o.Backend = cpu.New()
	m, err := runtime.New(g, o)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	s := m.NewSession()
	in := noise(g, dims)
	out, err := s.Run(context.Background(), in)
	if err != nil {
		b.Fatal(err)
	}
	var work int64
	for _, n := range g.Nodes {
		work += ops.WorkOf(n, dims).Flops
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := s.RunInto(context.Background(), in, out); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(work)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(float64(s.Memory())/(1<<20), "MiB")
	for _, p := range s.Profile() {
		b.Logf("%8.2f ms  %s %s %s", float64(p.Time.Microseconds())/1000/float64(max(1, p.Calls)), p.Form, p.Op, p.Name)
	}
}

func BenchmarkLayer(b *testing.B) {
	for _, s := range []struct{ length, h, n, heads, batch int }{
		{4096, 256, 256, 256, 1}, {4096, 256, 256, 64, 1}, {4096, 256, 256, 8, 1}, {4096, 256, 256, 1, 1},
		{16384, 192, 256, 8, 1}, {16000, 128, 128, 32, 1}, {4096, 256, 256, 8, 16},
	} {
		c := essm.Default()
		c.Encoder = essm.Encoder{Type: "identity"}
		c.DModel, c.NLayers, c.Prenorm, c.Norm = s.h, 1, false, "batch"
		c.Layer.Heads, c.Layer.DState, c.Layer.PostActivation = s.heads, s.n, "half_glu1"
		c.Layer.Dt, c.Layer.D = "per_state", "diagonal"
		c.Decoder.Type, c.Decoder.Mode, c.Decoder.DOutput = "sequence", "pool", 2
		for threads := 1; threads <= 2; threads++ {
			b.Run(fmt.Sprintf("L%d,H%d,N%d,S%d,B%d/threads=%d", s.length, s.h, s.n, s.heads, s.batch, threads),
				func(b *testing.B) {
					measure(b, network(b, c), runtime.Options{Threads: threads},
						map[string]int64{"B": int64(s.batch), "L": int64(s.length)})
				})
		}
	}
}

func BenchmarkPreset(b *testing.B) {
	for _, p := range essm.Presets() {
		for threads := 1; threads <= 2; threads++ {
			b.Run(fmt.Sprintf("%s/threads=%d", p.ID, threads), func(b *testing.B) {
				batch := int64(1)
				if p.Config.Decoder.Type == "retrieval" {
					batch = 1
				}
				measure(b, network(b, p.Config), runtime.Options{Threads: threads, Profile: threads == 1},
					map[string]int64{"B": batch, "P": batch, "L": int64(p.Length)})
			})
		}
	}
}

// BenchmarkGrowth runs the speech preset and a causal version of it at growing lengths. The time per step should not
// depend on the length, and neither should the working memory per step of the bidirectional model and the working
// memory of the causal one.
func BenchmarkGrowth(b *testing.B) {
	for _, direction := range []string{"bidirectional", "causal"} {
		p, err := essm.NewPreset("sc35")
		if err != nil {
			b.Fatal(err)
		}
		p.Config.Layer.Bidirectional = direction == "bidirectional"
		for length := int64(1 << 10); length <= 1<<20; length *= 4 {
			b.Run(fmt.Sprintf("%s/L=%d", direction, length), func(b *testing.B) {
				g := network(b, p.Config)
				measure(b, g, runtime.Options{}, map[string]int64{"B": 1, "L": length})
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(length), "ns/step")
			})
		}
	}
}

// BenchmarkStep runs a causal version of the speech preset step by step, with its state.
func BenchmarkStep(b *testing.B) {
	p, err := essm.NewPreset("sc35")
	if err != nil {
		b.Fatal(err)
	}
	p.Config.Layer.Bidirectional = false
	g := network(b, p.Config)
	for threads := 1; threads <= 2; threads++ {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			measure(b, g, runtime.Options{Threads: threads}, map[string]int64{"B": 1, "L": 1})
		})
	}
}

// BenchmarkRunOverhead runs a model with almost no work; with two threads, in two work items, and also with pauses in
// which helpers fall asleep.
func BenchmarkRunOverhead(b *testing.B) {
	c := essm.Default()
	c.Encoder = essm.Encoder{Type: "identity"}
	c.DModel, c.NLayers, c.Norm = 4, 1, "none"
	c.Layer.Heads, c.Layer.DState, c.Layer.Dt, c.Layer.D = 4, 4, "per_state", "diagonal"
	c.Decoder.Type, c.Decoder.Mode, c.Decoder.DOutput = "sequence", "none", 2
	g := network(b, c)
	b.Run("threads=1", func(b *testing.B) {
		measure(b, g, runtime.Options{Threads: 1}, map[string]int64{"B": 1, "L": 1})
	})
	for _, threads := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("B=2,L=256/threads=%d", threads), func(b *testing.B) {
			measure(b, g, runtime.Options{Threads: threads}, map[string]int64{"B": 2, "L": 256})
		})
	}
	for _, threads := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("paused/threads=%d", threads), func(b *testing.B) {
			m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Threads: threads})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			s := m.NewSession()
			in := noise(g, map[string]int64{"B": 2, "L": 256})
			out, err := s.Run(context.Background(), in)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var took []time.Duration
			for b.Loop() {
				time.Sleep(300 * time.Microsecond)
				start := time.Now()
				if err := s.RunInto(context.Background(), in, out); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/run")
		})
	}
}
