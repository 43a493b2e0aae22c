package raise_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

func normal(n int) []float64 {
	r := rand.New(rand.NewPCG(uint64(n), 9))
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// smooth is a convolution whose kernels, of a small network as in CKConv, are nearly sums of exponentials: with some
// roughness, which no sum fits.
func smooth(t testing.TB, h, length int) *ir.Graph {
	k := make([]float64, h*length)
	for i := range k {
		x, c := float64(i%length)/float64(length)-0.5, float64(i/length)
		k[i] = math.Sin((40+c)*x) * math.Tanh(math.Cos(9*x)+x) * math.Exp(-3*x)
	}
	for i, v := range normal(len(k)) {
		k[i] += 2e-5 * v
	}
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", h, length))
	l.Output("y", l.causal(x, l.floats("w", k, h, 1, length), h, length))
	return l.graph(t)
}

// mixed is a transform of so many features.
func mixed(t testing.TB, features int) *ir.Graph {
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", "L", features))
	l.Output("y", l.Op("essm", "FourierMix", []*ir.Value{x}))
	return l.graph(t)
}

// upTo is a graph with values of the same names and types, which has no transform.
func upTo(t testing.TB, features int) *ir.Graph {
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "B", "L", features))
	l.Output("y", l.op("Relu", x))
	return l.graph(t)
}

// linearScan is a Scan whose body multiplies a state by so many matrices.
func linearScan(t testing.TB, n, matrices int) *ir.Graph {
	l := newLayer()
	x := l.Input("x", ir.Tensor(tensor.Float32, "L", n))
	init := l.floats("init", make([]float64, n), n)
	s := l.Sub("body")
	state, in := s.Input("s", ir.Tensor(tensor.Float32, n)), s.Input("u", ir.Tensor(tensor.Float32, n))
	w := l.floats("w", normal(n*n), n, n)
	next := state
	for range matrices {
		next = s.Op("", "MatMul", []*ir.Value{next, w})
	}
	next = s.Op("", "Add", []*ir.Value{next, in})
	s.Output("next", next)
	s.Output("out", s.Op("", "Identity", []*ir.Value{next}))
	body, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	out := l.Ops("", "Scan", 2, []*ir.Value{init, x}, ir.A("body", body), ir.A("num_scan_inputs", 1))
	l.Output("y", out[1])
	return l.graph(t)
}

// fullSystem is a system with a full matrix of size n.
func fullSystem(t testing.TB, n int) *ir.Graph {
	l := newLayer()
	u := l.Input("u", ir.Tensor(tensor.Float32, "B", "L", 1))
	in := []*ir.Value{u, l.floats("log_dt", make([]float64, 1), 1, 1, 1), l.floats("B", normal(n), 1, 1, n, 1),
		l.floats("C", normal(n), 1, 1, 1, n), nil, l.floats("A", normal(n*n), 1, 1, n, n)}
	l.Output("y", l.Op("essm", "StateSpace", in))
	return l.graph(t)
}

// impulses is a graph of long convolutions by one channel, none of which is a system.
func impulses(t testing.TB, count int) *ir.Graph {
	l := newLayer()
	const length = 600
	v := l.Input("x", ir.Tensor(tensor.Float32, "B", 1, length))
	for range count {
		v = l.op("Relu", l.causal(v, l.floats("w", normal(length), 1, 1, length), 1, length))
	}
	l.Output("y", v)
	return l.graph(t)
}

var searches = map[string]func(t testing.TB) *ir.Graph{
	"fits":   func(t testing.TB) *ir.Graph { return smooth(t, 4, 512) },
	"probes": func(t testing.TB) *ir.Graph { return impulses(t, 12) },
	"scan":   func(t testing.TB) *ir.Graph { return linearScan(t, 200, 20) },
	"listed": func(t testing.TB) *ir.Graph { return tinySystem(t, 9) },
	"eigen":  func(t testing.TB) *ir.Graph { return fullSystem(t, 160) },
}

func all() []*passes.Pass { return slices.Concat(raise.Pipeline(), passes.Pipeline()) }

// TestCancel cancels the search for forms at many moments. It must end at once, without waiting for numeric routines
// that cannot be interrupted.
func TestCancel(t *testing.T) {
	moments := 2
	if os.Getenv("ESSMC_LONG") != "" {
		moments = 20
	}
	for name, build := range searches {
		g := build(t)
		begin := time.Now()
		if err := passes.Run(g.Clone(), all(), passes.Options{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		whole := time.Since(begin)
		r := rand.New(rand.NewPCG(5, 6))
		var worst time.Duration
		for range moments {
			at := time.Duration(r.Float64() * float64(whole))
			best := time.Hour
			for range 4 { // the machine may be busy
				h := g.Clone()
				ctx, cancel := context.WithCancel(context.Background())
				var work, wall time.Duration
				var from time.Time
				go func() {
					time.Sleep(at)
					work, from = worktime.Now(), time.Now()
					cancel()
				}()
				err := passes.Run(h, all(), passes.Options{Context: ctx})
				if err == nil { // it was faster this time
					<-ctx.Done()
					best = 0
					break
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("%s: %v", name, err)
				}
				<-ctx.Done()
				wall, work = time.Since(from), worktime.Now()-work
				if best = min(best, wall, work); best < 2*time.Millisecond {
					break
				}
			}
			if worst = max(worst, best); best > 5*time.Millisecond {
				t.Errorf("%s: cancelled after %v of %v, the passes went on for %v", name, at, whole, best)
			}
		}
		t.Logf("%s: %v in all; cancelled, at most %v", name, whole, worst)
	}
}

// TestSearchBudget gives the search less than it needs. What does not fit is left as it is, equally each time.
func TestSearchBudget(t *testing.T) {
	for name, build := range searches {
		g := build(t)
		for work := int64(0); work < 1<<34; work = 64*work + 1<<16 {
			var text [2]string
			for i := range text {
				h := g.Clone()
				b := ir.NewBudget(1<<28, work)
				if err := passes.Run(h, all(), passes.Options{Budget: b}); err != nil {
					t.Fatalf("%s with %d operations: %v", name, work, err)
				}
				if b.Spent() > work {
					t.Errorf("%s: %d of %d operations are spent", name, b.Spent(), work)
				}
				for _, n := range passtest.Notes(h) {
					if strings.Contains(n, "\n") {
						t.Errorf("%s: note of several lines: %q", name, n)
					}
				}
				text[i] = irtext.String(h)
			}
			if text[0] != text[1] {
				t.Errorf("%s with %d operations: two runs differ", name, work)
			}
		}
	}
}

// TestSearchBombs raises graphs of a few kilobytes that demand much memory or work. They stay unchanged.
func TestSearchBombs(t *testing.T) {
	for _, c := range []struct {
		name  string
		note  string
		build func() *ir.Graph
	}{
		{"pads", "more than are evaluated", func() *ir.Graph { // the Conv between has 2^31 elements
			l := newLayer()
			const length, pad = 256, 1<<31 - 1
			x := l.Input("x", ir.Tensor(tensor.Float32, 1, 1, length))
			y := l.op("Conv", x, l.floats("w", normal(length), 1, 1, length), ir.A("pads", []int64{pad, length - 1}))
			l.Output("y", l.op("Slice", y, []int64{pad}, []int64{pad + length}, []int64{2}))
			return l.graph(t)
		}},
		{"listed", "left as it is", func() *ir.Graph { // matrices of 2^40 numbers
			g := upTo(t, 1<<20)
			g.Meta[ir.MetaOperators] = irtext.String(mixed(t, 1<<20))
			return g
		}},
		{"states", "operations beside", func() *ir.Graph { return linearScan(t, 400, 64) }},
		{"matrix", "stays full", func() *ir.Graph { return fullSystem(t, 900) }},
		{"kernels", "convolution", func() *ir.Graph { return smooth(t, 32, 512) }},
	} {
		if c.name == "states" && os.Getenv("ESSMC_LONG") == "" {
			continue // 3 s
		}
		g := c.build()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		work := worktime.Now()
		if err := passes.Run(g, all(), passes.Options{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		work = worktime.Now() - work
		runtime.ReadMemStats(&after)
		t.Logf("%s: %v, %d MiB", c.name, work, (after.TotalAlloc-before.TotalAlloc)>>20)
		if work > 10*time.Second {
			t.Errorf("%s: took %v", c.name, work)
		}
		if notes := strings.Join(passtest.Notes(g), "\n"); !strings.Contains(notes, c.note) {
			t.Errorf("%s: expected a note with %q, found\n%s", c.name, c.note, notes)
		}
	}
}

// TestManyNodes raises graphs of many nodes, for which the work must grow as the nodes do.
func TestManyNodes(t *testing.T) {
	for name, next := range map[string]func(b *ir.Builder, v *ir.Value, i int) *ir.Value{
		"chain": func(b *ir.Builder, v *ir.Value, _ int) *ir.Value { return b.Op("", "Relu", []*ir.Value{v}) },
		"constants": func(b *ir.Builder, v *ir.Value, i int) *ir.Value {
			k := b.Op("", "Abs", []*ir.Value{b.Const("c", tensor.FromSlice([]float32{float32(i)}, 1))})
			return b.Op("", "Mul", []*ir.Value{v, k})
		},
		"shapes": func(b *ir.Builder, v *ir.Value, _ int) *ir.Value {
			s := b.Op("", "Concat", []*ir.Value{b.Op("", "Shape", []*ir.Value{v}), b.Ints(1)}, ir.A("axis", 0))
			return b.Op("", "Squeeze", []*ir.Value{b.Op("", "Reshape", []*ir.Value{v, s}), b.Ints(2)})
		},
	} {
		took := func(n int) time.Duration {
			b := ir.NewBuilder("g", ops.Default, ops.Opsets())
			v := b.Input("x", ir.Tensor(tensor.Float32, 4, 5))
			for i := range n {
				v = next(b, v, i)
			}
			b.Output("y", v)
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			start := worktime.Now()
			if err := passes.Run(g, all(), passes.Options{}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return worktime.Now() - start
		}
		const n = 1000
		few, many := min(took(n), took(n)), took(8*n)
		t.Logf("%s: %v for %d, %v for %d", name, few, n, many, 8*n)
		if many > 24*few+100*time.Millisecond {
			t.Errorf("%s: %v for %d nodes, and %v for %d", name, few, n, many, 8*n)
		}
	}
}
