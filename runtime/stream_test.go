package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
	"github.com/essmc/essmc/runtime/ref"
)

func stream(t testing.TB, m *runtime.Model, batch int) *runtime.Stream {
	t.Helper()
	s, err := m.NewStream(batch)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cut is steps lo to hi of a sequence (B, L, …).
func cut(x *tensor.Tensor, lo, hi int) *tensor.Tensor {
	shape := append([]int{}, x.Shape()...)
	shape[1] = hi - lo
	y := tensor.New(x.DType(), shape...)
	batch, row := x.Dim(0), len(x.Bytes())/(x.Dim(0)*x.Dim(1))
	for b := range batch {
		copy(y.Bytes()[b*(hi-lo)*row:(b+1)*(hi-lo)*row], x.Bytes()[(b*x.Dim(1)+lo)*row:])
	}
	return y
}

// paste puts y at the steps of x from lo on.
func paste(x, y *tensor.Tensor, lo int) {
	batch, row, n := x.Dim(0), len(x.Bytes())/(x.Dim(0)*x.Dim(1)), y.Dim(1)
	for b := range batch {
		copy(x.Bytes()[(b*x.Dim(1)+lo)*row:], y.Bytes()[b*n*row:(b+1)*n*row])
	}
}

// sequence is a stream's answer for x, fed in chunks; lengths are asked for one by one, from the step that comes next.
func sequence(t testing.TB, s *runtime.Stream, x *tensor.Tensor, chunk func(at int) int) *tensor.Tensor {
	t.Helper()
	var joined *tensor.Tensor
	length := x.Dim(1)
	for lo := 0; lo < length; {
		hi := min(length, lo+chunk(lo))
		out := data{}
		if err := s.Step(context.Background(), data{"input": cut(x, lo, hi)}, out); err != nil {
			t.Fatalf("steps %d to %d: %v", lo, hi, err)
		}
		y := out["output"].(*tensor.Tensor)
		if s.Timing().Outputs[0].Kind != stepgraph.Sequence {
			joined = y
		} else {
			if joined == nil {
				joined = tensor.New(y.DType(), y.Dim(0), length, y.Dim(2))
			}
			paste(joined, y, lo)
		}
		lo = hi
	}
	return joined
}

// apart is the largest difference of two answers, relative to the largest number of the first.
func apart(t testing.TB, want, got *tensor.Tensor) float64 {
	t.Helper()
	a, b := tensor.Data[float32](want), tensor.Data[float32](got)
	if len(a) != len(b) {
		t.Fatalf("expected %s, found %s", want, got)
	}
	size, diff := 0.0, 0.0
	for i := range a {
		size = max(size, math.Abs(float64(a[i])))
		diff = max(diff, math.Abs(float64(a[i])-float64(b[i])))
	}
	return diff / size
}

func every(n int) func(int) int { return func(int) int { return n } }

// Whole sequence = chunks of any length, on both backends.
func TestChunks(t *testing.T) {
	const length = 1500
	rng := rand.New(rand.NewPCG(1, 2))
	for _, mode := range []string{"none", "pool", "last", "first", "sum"} {
		g := network(t, small(mode))
		for _, b := range []runtime.Backend{cpu.New(), ref.New()} {
			n := length
			if b.Name() == "ref" {
				n = 150
			}
			m := model(t, g, runtime.Options{Backend: b})
			x := noise(3, 2, n, 2)
			out, err := m.NewSession().Run(context.Background(), data{"input": x})
			if err != nil {
				t.Fatal(err)
			}
			want := out["output"].(*tensor.Tensor)
			s := stream(t, m, 2)
			for name, chunk := range map[string]func(int) int{"1": every(1), "7": every(7), "64": every(64),
				"1000": every(1000), "any": func(int) int { return 1 + rng.IntN(100) }} {
				if err := s.Reset(); err != nil {
					t.Fatal(err)
				}
				got := sequence(t, s, x, chunk)
				if d := apart(t, want, got); !(d <= 5e-6) {
					t.Errorf("%s, %s, chunks of %s: %.2g apart", mode, b.Name(), name, d)
				}
				if s.Steps() != int64(n) {
					t.Errorf("%d steps counted, expected %d", s.Steps(), n)
				}
			}
		}
	}
}

// A model that looks ahead without bound is refused with the layer's name.
func TestStreamRefused(t *testing.T) {
	c := small("pool")
	c.Layer.Bidirectional = true
	m := model(t, network(t, c), runtime.Options{Backend: cpu.New()})
	_, err := m.NewStream(1)
	var se *runtime.StreamError
	var blocked *stepgraph.BlockedError
	if !errors.Is(err, runtime.ErrStream) || !errors.As(err, &se) || !errors.As(err, &blocked) ||
		!strings.Contains(err.Error(), "layers.0") || !strings.Contains(err.Error(), "bidirectional") {
		t.Errorf("found %v", err)
	}
	if _, again := m.NewStream(1); again == nil || again.Error() != err.Error() {
		t.Errorf("the second time: %v", again)
	}
	if _, err := m.NewSession().Run(context.Background(), data{"input": noise(1, 1, 5, 2)}); err != nil {
		t.Errorf("whole sequences: %v", err)
	}
}

// Errors are typed, and leave the stream as it was.
func TestStreamErrors(t *testing.T) {
	m := model(t, network(t, small("none")), runtime.Options{Backend: cpu.New(), MaxMemory: 32 << 10})
	s := stream(t, m, 1)
	x := noise(1, 1, 10, 2)
	ctx := context.Background()
	if err := s.Step(ctx, data{"input": x}, data{}); err != nil {
		t.Fatal(err)
	}
	before, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	for name, c := range map[string]struct {
		ctx     context.Context
		in, out data
		is      error
		want    string
	}{
		"rank": {ctx, data{"input": noise(1, 1, 2)}, data{}, runtime.ErrInput,
			`input "input": expected 3 dimensions`},
		"features": {ctx, data{"input": noise(1, 1, 2, 3)}, data{}, runtime.ErrInput,
			`input "input": dimension 2: expected 2, found 3`},
		"batch": {ctx, data{"input": noise(1, 2, 2, 2)}, data{}, runtime.ErrInput,
			`input "input": dimension 0: the stream has B = 1, found 2`},
		"no steps": {ctx, data{"input": noise(1, 1, 0, 2)}, data{}, runtime.ErrInput, `input "input": dimension 1: is 0`},
		"dtype": {ctx, data{"input": tensor.New(tensor.Float64, 1, 2, 2)}, data{}, runtime.ErrInput,
			`input "input": expected element type float32, found float64`},
		"name": {ctx, data{"input": x, "inptu": x}, data{}, runtime.ErrInput,
			`input "inptu": the model has no such input`},
		"missing": {ctx, data{}, data{}, runtime.ErrInput, `input "input": is missing`},
		"output": {ctx, data{"input": x}, data{"output": noise(1, 1, 2, 3)}, runtime.ErrInput,
			`output "output": expected shape [1,10,3] to write to`},
		"state name": {ctx, data{"input": x, "layers.0.state": x}, data{}, runtime.ErrInput,
			`input "layers.0.state": the model has no such input`},
		"memory":    {ctx, data{"input": noise(1, 1, 200000, 2)}, data{}, runtime.ErrMemory, ""},
		"cancelled": {done, data{"input": x}, data{}, context.Canceled, ""},
	} {
		err := s.Step(c.ctx, c.in, c.out)
		if !errors.Is(err, c.is) || !strings.HasPrefix(fmt.Sprint(err), c.want) {
			t.Errorf("%s: expected %q, found %v", name, c.want, err)
		}
		if after, err := s.Snapshot(); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the stream has changed: %v", name, err)
		}
	}
	for _, batch := range []int{0, -1} {
		if _, err := m.NewStream(batch); !errors.Is(err, runtime.ErrOption) {
			t.Errorf("a stream of %d samples: %v", batch, err)
		}
	}
	for _, batch := range []int{1 << 20, math.MaxInt} {
		if _, err := m.NewStream(batch); err == nil {
			t.Errorf("a stream of %d samples is made within a limit of 1 MiB", batch)
		}
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = s.Snapshot()
	for name, err := range map[string]error{"Step": s.Step(ctx, data{"input": x}, data{}), "Reset": s.Reset(),
		"Snapshot": err, "Restore": s.Restore(before)} {
		if !errors.Is(err, runtime.ErrClosed) || !errors.Is(err, runtime.ErrStreamClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	open := stream(t, m, 1)
	m.Close()
	if err := open.Step(ctx, data{"input": x}, data{}); !errors.Is(err, runtime.ErrClosed) ||
		errors.Is(err, runtime.ErrStreamClosed) {
		t.Errorf("Step after the model's Close: %v", err)
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.NewStream(1); !errors.Is(err, runtime.ErrClosed) {
		t.Errorf("NewStream after the model's Close: %v", err)
	}
}

// A model whose operators state nothing of time is refused.
func TestStreamUnknownOperator(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "B", "L"), "Double"), runtime.Options{})
	if _, err := m.NewStream(1); !errors.Is(err, runtime.ErrStream) || !strings.Contains(err.Error(), "test.Double") {
		t.Errorf("found %v", err)
	}
}

// NaN goes through, and stays in the sample that it is in.
func TestStreamNaN(t *testing.T) {
	m := model(t, network(t, small("none")), runtime.Options{Backend: cpu.New()})
	clean, dirty := noise(1, 3, 8, 2), noise(1, 3, 8, 2)
	tensor.Data[float32](dirty)[8*2+5] = float32(math.NaN())
	want := sequence(t, stream(t, m, 3), clean, every(3))
	got := sequence(t, stream(t, m, 3), dirty, every(3))
	if !bytes.Equal(want.Bytes()[:8*3*4], got.Bytes()[:8*3*4]) ||
		!bytes.Equal(want.Bytes()[2*8*3*4:], got.Bytes()[2*8*3*4:]) {
		t.Error("a NaN in one sample changed another")
	}
	if v := tensor.Data[float32](got)[2*8*3-1]; v == v {
		t.Errorf("a NaN was lost: the last answer is %v", v)
	}
}

// States can be read and set, by name.
func TestStreamState(t *testing.T) {
	m := model(t, network(t, small("none")), runtime.Options{Backend: cpu.New()})
	x := noise(1, 2, 20, 2)
	s := stream(t, m, 2)
	want := sequence(t, s, x, every(10))
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	sequence(t, s, cut(x, 0, 10), every(10))
	state, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	if len(state) != len(s.States()) {
		t.Errorf("%d states, expected %v", len(state), s.States())
	}
	other := stream(t, m, 2)
	if err := other.SetState(state); err != nil {
		t.Fatal(err)
	}
	if got := sequence(t, other, cut(x, 10, 20), every(10)); !tensor.Equal(got, cut(want, 10, 20)) {
		t.Error("a stream that was given a state does not go on as the one that had it")
	}
	before, _ := other.Snapshot()
	for want, bad := range map[string]map[string]*tensor.Tensor{
		`input "nothing": the model has no such state`: {"nothing": x,
			"layers.0.state": state["layers.0.state"]},
		`input "layers.0.state": expected float64[2,16], found float32[2,20,2]`: {"layers.0.state": x},
		`input "layers.0.state": expected float64[2,16], found none`:            {"layers.0.state": nil},
	} {
		if err := other.SetState(bad); !errors.Is(err, runtime.ErrInput) || err.Error() != want {
			t.Errorf("expected %q, found %v", want, err)
		}
	}
	if after, _ := other.Snapshot(); !bytes.Equal(before, after) {
		t.Error("a refused state has changed the stream")
	}
}

// A step with chunks of a length seen before, into memory of the caller's, allocates nothing.
func TestStepAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("under the race detector pools forget")
	}
	for _, mode := range []string{"none", "last"} {
		for _, threads := range []int{1, 2, 4} {
			for _, chunk := range []int{1, 1000} {
				m := model(t, network(t, small(mode)), runtime.Options{Backend: cpu.New(), Threads: threads})
				s := stream(t, m, 1)
				in, out, ctx := data{"input": noise(1, 1, chunk, 2)}, data{}, context.Background()
				if err := s.Step(ctx, in, out); err != nil {
					t.Fatal(err)
				}
				if n := testing.AllocsPerRun(100, func() {
					if err := s.Step(ctx, in, out); err != nil {
						t.Fatal(err)
					}
				}); n != 0 {
					t.Errorf("%s, %d threads, chunks of %d: %v allocations per step", mode, threads, chunk, n)
				}
			}
		}
	}
}

// Twenty thousand idle streams cost their state and at most 1 KB each.
func TestIdleStreams(t *testing.T) {
	const count = 20000
	m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New()})
	in, out := data{"input": noise(1, 1, 1, 2)}, data{}
	first := stream(t, m, 1)
	if err := first.Step(context.Background(), in, out); err != nil {
		t.Fatal(err)
	}
	state, err := first.State()
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, x := range state {
		size += int64(len(x.Bytes()))
	}
	before := heap()
	all := make([]*runtime.Stream, count)
	for i := range all {
		all[i] = stream(t, m, 1)
		if i%10 == 0 {
			if err := all[i].Step(context.Background(), in, out); err != nil {
				t.Fatal(err)
			}
		}
	}
	per := (heap() - before) / count
	t.Logf("%d bytes per stream, of which its state is %d", per, size)
	if per > size+1024 {
		t.Errorf("a stream takes %d bytes, its state is %d", per, size)
	}
	if all[count-1].Steps() != 0 {
		t.Error("the streams are not there any more")
	}
}

// Many streams of one model step at the same time, while it is closed.
func TestStreamHammer(t *testing.T) {
	m := model(t, network(t, small("none")), runtime.Options{Backend: cpu.New(), Threads: 2})
	x := noise(1, 1, 12, 2)
	want := sequence(t, stream(t, m, 1), x, every(3))
	var wg, running sync.WaitGroup
	running.Add(64)
	for i := range 64 {
		wg.Go(func() {
			for round := 0; ; round++ {
				s, err := m.NewStream(1)
				out := data{}
				for lo := 0; lo < 12 && err == nil; lo += 3 {
					clear(out)
					if err = s.Step(context.Background(), data{"input": cut(x, lo, lo+3)}, out); err == nil &&
						!tensor.Equal(out["output"].(*tensor.Tensor), cut(want, lo, lo+3)) {
						t.Errorf("goroutine %d: wrong answer", i)
					}
				}
				if round == 0 {
					running.Done()
				}
				if errors.Is(err, runtime.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("goroutine %d: %v", i, err)
					return
				}
			}
		})
	}
	running.Wait()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// helperVariable makes the test binary the other process of TestOtherProcess: plan, snapshot, input and output files.
const helperVariable = "ESSMC_STREAM_HELPER"

func TestStreamHelper(t *testing.T) {
	files := filepath.SplitList(os.Getenv(helperVariable))
	if len(files) != 4 {
		t.Skip("is the other process of TestOtherProcess")
	}
	m, err := runtime.Load(files[0], runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	s := stream(t, m, 2)
	snapshot, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(snapshot); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(files[2])
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.FromBytes(tensor.Float32, []int{2, len(b) / 16, 2}, b)
	if err != nil {
		t.Fatal(err)
	}
	y := sequence(t, s, x, every(7))
	if err := os.WriteFile(files[3], y.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A snapshot taken anywhere goes on in another process as if nothing had been.
func TestOtherProcess(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "model.essm"), filepath.Join(dir, "snapshot"), filepath.Join(dir, "in"),
		filepath.Join(dir, "out")}
	g := network(t, small("none"))
	if err := plan.WriteFile(files[0], g); err != nil {
		t.Fatal(err)
	}
	m := model(t, g, runtime.Options{Backend: cpu.New()})
	x := noise(9, 2, 210, 2)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3 {
		at := 1 + rng.IntN(200)
		s := stream(t, m, 2)
		sequence(t, s, cut(x, 0, at), every(13))
		snapshot, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		want := sequence(t, s, cut(x, at, 210), every(7)) // the stream that was never interrupted
		for i, b := range [][]byte{snapshot, cut(x, at, 210).Bytes()} {
			if err := os.WriteFile(files[1+i], b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestStreamHelper$")
		cmd.Env = append(os.Environ(), helperVariable+"="+strings.Join(files, string(filepath.ListSeparator)))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got, err := os.ReadFile(files[3])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("from step %d on the other process gives other answers", at)
		}
	}
}

// A step program shares the packed weights with that of whole sequences.
func TestStreamSharesWeights(t *testing.T) {
	c := small("none")
	c.DModel, c.NLayers = 512, 2
	c.Layer.Heads, c.Layer.DState = 1, 8
	g := network(t, c)
	before := heap()
	m := model(t, g, runtime.Options{Backend: cpu.New()})
	packed := heap() - before
	s := stream(t, m, 1)
	more := heap() - before - packed
	t.Logf("the model takes %d bytes, its streams %d more", packed, more)
	if more > packed/4 {
		t.Errorf("the step program takes %d bytes, the program of whole sequences %d", more, packed)
	}
	if s.Steps() != 0 || m.Graph() != g {
		t.Error("the model is not there any more")
	}
}

// A million steps stay with the recurrence in float64, however slow the state: what is lost per step must not add up.
func TestMillionSteps(t *testing.T) {
	if os.Getenv("ESSMC_LONG") == "" {
		t.Skip("a million steps: ESSMC_LONG=1")
	}
	const steps, chunk = 1 << 20, 1 << 10
	decay := []float64{-1e-1, -1e-2, -1e-3, -1e-4, -1e-5}
	n := len(decay)
	im := []float64{0, 0.3, -1, 2, 0.01}
	b := ir.NewBuilder("slow", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	f64 := func(v []float64) *ir.Value { return b.Const("c", tensor.FromSlice(v, 1, 1, n)) }
	one := make([]float64, n)
	for i, d := range decay {
		one[i] = -d // so that constant input gives 1
	}
	v := b.Input("input", ir.Tensor(tensor.Float32, "B", "L", n))
	b.Output("output", b.Op("essm", "Scan", []*ir.Value{v, f64(decay), f64(im), f64(one), f64(make([]float64, n))}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	m := model(t, g, runtime.Options{Backend: cpu.New()})
	for name, next := range map[string]func(seed *uint32) float32{
		"random":   func(seed *uint32) float32 { *seed = *seed*1664525 + 1013904223; return float32(*seed>>8)/(1<<23) - 1 },
		"constant": func(*uint32) float32 { return 1 },
	} {
		for _, size := range []int{1, chunk} {
			s := stream(t, m, 1)
			seed, z := uint32(1), make([]complex128, n)
			a := make([]complex128, n)
			for i := range a {
				sin, cos := math.Sincos(im[i])
				r := math.Exp(decay[i])
				a[i] = complex(r*cos, r*sin)
			}
			x, out := tensor.New(tensor.Float32, 1, size, n), data{"output": tensor.New(tensor.Float32, 1, size, n)}
			diff, largest := make([]float64, n), make([]float64, n)
			for at := 0; at < steps; at += size {
				xs := tensor.Data[float32](x)
				for i := range xs {
					xs[i] = next(&seed)
				}
				if err := s.Step(context.Background(), data{"input": x}, out); err != nil {
					t.Fatal(err)
				}
				ys := tensor.Data[float32](out["output"].(*tensor.Tensor))
				for k := range size {
					for i := range n {
						z[i] = a[i]*z[i] + complex(one[i]*float64(xs[k*n+i]), 0)
						largest[i] = max(largest[i], math.Abs(real(z[i])))
						diff[i] = max(diff[i], math.Abs(real(z[i])-float64(ys[k*n+i])))
					}
				}
			}
			for i := range n {
				t.Logf("%s, chunks of %d, Re λΔ = %g: %.2g", name, size, decay[i], diff[i]/largest[i])
				if !(diff[i] <= 1e-4*largest[i]) {
					t.Errorf("%s, chunks of %d, Re λΔ = %g: %.2g apart", name, size, decay[i], diff[i]/largest[i])
				}
			}
		}
	}
}

// sc35 is the speech preset made causal, which BenchmarkStreamStep and the documentation speak of.
func sc35(t testing.TB) *essm.Config {
	t.Helper()
	p, err := essm.NewPreset("sc35")
	if err != nil {
		t.Fatal(err)
	}
	p.Config.Layer.Bidirectional = false
	return p.Config
}

// BenchmarkStreamStep steps the speech preset, made causal, by one step: six layers.
func BenchmarkStreamStep(b *testing.B) {
	m := model(b, network(b, sc35(b)), runtime.Options{Backend: cpu.New(), Threads: 1})
	for _, size := range []int{1, 16, 160} {
		b.Run(fmt.Sprintf("chunk=%d", size), func(b *testing.B) {
			s := stream(b, m, 1)
			in, out := data{"input": noise(1, 1, size, 1)}, data{}
			ctx := context.Background()
			if err := s.Step(ctx, in, out); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			took := make([]float64, 0, 1<<20)
			for b.Loop() {
				start := time.Now()
				if err := s.Step(ctx, in, out); err != nil {
					b.Fatal(err)
				}
				if len(took) < cap(took) {
					took = append(took, float64(time.Since(start)))
				}
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "median-ns") // what other processes take shows in the mean alone
			b.ReportMetric(took[len(took)/2]/float64(size), "median-ns/step")
		})
	}
}

// BenchmarkStepMany steps streams of it together, by one step each.
func BenchmarkStepMany(b *testing.B) {
	g := network(b, sc35(b))
	for threads := 1; threads <= 2; threads++ {
		m := model(b, g, runtime.Options{Backend: cpu.New(), Threads: threads})
		for _, count := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprintf("streams=%d/threads=%d", count, threads), func(b *testing.B) {
				steps := make([]runtime.StreamStep, count)
				for i := range steps {
					steps[i] = runtime.StreamStep{Stream: stream(b, m, 1), In: data{"input": noise(uint32(i), 1, 1, 1)},
						Out: data{}}
				}
				took := make([]float64, 0, 1<<20)
				for b.Loop() {
					start := time.Now()
					if err := m.StepMany(context.Background(), steps); err != nil {
						b.Fatal(err)
					}
					if len(took) < cap(took) {
						took = append(took, float64(time.Since(start)))
					}
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2]/float64(count), "median-ns/stream")
				b.ReportMetric(took[0]/float64(count), "least-ns/stream") // as on a machine that does nothing else
			})
		}
	}
}
