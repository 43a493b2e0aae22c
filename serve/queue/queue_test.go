package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// small is a small model of two features.
func small(t *testing.T, bidirectional bool, mode string) *runtime.Model {
	t.Helper()
	c := essm.Default()
	c.Encoder = essm.Encoder{Type: "linear", DInput: 2}
	c.DModel, c.NLayers, c.Norm = 8, 2, "batch"
	c.Layer.Heads, c.Layer.DState, c.Layer.Bidirectional = 2, 8, bidirectional
	c.Layer.Dt, c.Layer.D = "per_state", "diagonal"
	c.Decoder = essm.Decoder{Type: "sequence", Mode: mode, DOutput: 3}
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
	m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// text opens a graph as text.
func text(t *testing.T, s string) *runtime.Model {
	t.Helper()
	m, err := open.Bytes([]byte(s), "text", open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Compile(runtime.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func noise(seed uint64, shape ...int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 1))
	x := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](x) {
		tensor.Data[float32](x)[i] = r.Float32()*2 - 1
	}
	return x
}

func start(t *testing.T, m *runtime.Model, o Options) *Queue {
	t.Helper()
	q, err := New(m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// Answers are bit by bit those of one request, whatever else is in the batch: other numbers, several samples, NaN.
func TestComposition(t *testing.T) {
	for _, bidirectional := range []bool{false, true} {
		m := small(t, bidirectional, "pool")
		session := m.NewSession()
		for _, n := range []int{1, 2, 7, 32} {
			q := start(t, m, Options{Workers: 2, Delay: 20 * time.Millisecond})
			if joined, why := q.Joined(); !joined || q.Axis() != 0 {
				t.Fatal("requests are not joined:", why)
			}
			for round := range 3 {
				var wg sync.WaitGroup
				most := make([]int, n)
				for i := range n {
					x := noise(uint64(100*n+i), 1+round, 5+11*round, 2)
					if i%5 == 1 {
						tensor.Data[float32](x)[0] = float32(nan())
					}
					want, err := session.Run(t.Context(), map[string]tensor.Datum{"input": x})
					if err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						got, err := q.Run(t.Context(), map[string]tensor.Datum{"input": x}, 0)
						if err != nil || !equal(got.Out, want) {
							t.Errorf("request %d of %d, round %d: other answers than by itself, %v", i, n, round, err)
						}
						most[i] = got.Joined
					})
				}
				wg.Wait()
				if n > 1 && !someAbove(most, 1) {
					t.Errorf("%d requests at a time ran one by one", n)
				}
			}
			if joined, why := q.Joined(); !joined {
				t.Error("the model failed the check:", why)
			}
		}
	}
}

func nan() float64 { var zero float64; return zero / zero }

func someAbove(list []int, n int) bool {
	for _, v := range list {
		if v > n {
			return true
		}
	}
	return false
}

// Streams that are due together step together, and each gets its own answers.
func TestSteps(t *testing.T) {
	m := small(t, false, "none")
	q := start(t, m, Options{Delay: 20 * time.Millisecond})
	const n = 9
	var wg sync.WaitGroup
	joined := make([]int, n)
	for i := range n {
		alone, err := m.NewStream(1)
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.NewStream(1)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for step := range 4 {
				in, want := map[string]tensor.Datum{"input": noise(uint64(10*i+step), 1, 1+i%2, 2)}, map[string]tensor.Datum{}
				got, err := q.Step(t.Context(), s, in, 0)
				if err := errors.Join(err, alone.Step(t.Context(), in, want)); err != nil || !equal(got.Out, want) {
					t.Errorf("stream %d, step %d: other answers than by itself, %v", i, step, err)
				}
				joined[i] = max(joined[i], got.Joined)
			}
		})
	}
	wg.Wait()
	if !someAbove(joined, 1) {
		t.Error("all streams stepped one by one")
	}
}

// Models whose samples depend on each other, or that have no batch dimension, run singly, and the reason is there.
func TestSingly(t *testing.T) {
	head := `<ir_version: 10, opset_import: ["" : 20]> `
	for _, c := range []struct{ text, symbol, why string }{
		{`g (float[B,3] x) => (float[1,3] y) <int64[1] axes = {0}> { y = ReduceMean (x, axes) }`, "B", "several samples"},
		{`g (float[B,3] x) => (float[B,3] y) <int64 axis = {0}> { y = CumSum (x, axis) }`, "B", "several samples"},
		{`g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }`, "", "no batch dimension"},
		{`g (float[B,3] x, float s) => (float[B,3] y) { y = Mul (x, s) }`, "B", `input "s" has no dimension B`},
		{`g (string[B] x) => (string[B] y) { y = Identity (x) }`, "B", "cannot be joined"},
		{`g (float[B,B] x) => (float[B,B] y) { y = Relu (x) }`, "B", "twice"},
	} {
		q := start(t, text(t, head+c.text), Options{Batch: c.symbol})
		if joined, why := q.Joined(); joined || !strings.Contains(why, c.why) || q.Axis() != -1 {
			t.Errorf("%s: joined %v, %q", c.text, joined, why)
		}
	}
	m := text(t, head+`g (float[N,3] x) => (float[N,3] y) { y = Relu (x) }`)
	if joined, why := start(t, m, Options{Batch: "N"}).Joined(); !joined {
		t.Error("with a symbol that is given:", why)
	}
	if joined, why := start(t, m, Options{Batch: "N", Max: 1}).Joined(); joined || why == "" {
		t.Error("with a maximum of 1:", why)
	}
}

// The first batch that has other answers than its requests ends joining, and its requests get their own answers.
func TestCheck(t *testing.T) {
	m := text(t, `<ir_version: 10, opset_import: ["" : 20]> g (float[B,2] x) => (float[B,2] y) { y = Relu (x) }`)
	q := start(t, m, Options{Batch: "B", Workers: 1})
	batch := make([]*request, 4)
	for i := range batch {
		batch[i] = &request{ctx: t.Context(), in: map[string]tensor.Datum{"x": noise(uint64(i), 1, 2)}, done: make(chan struct{})}
		batch[i].key = q.axes.key(m, batch[i].in)
	}
	q.axes.out[0] = 1 // wrong: halves of rows
	q.run(m.NewSession(), batch[:2])
	if joined, why := q.Joined(); joined || !strings.Contains(why, "2 requests") {
		t.Errorf("joined %v, %q", joined, why)
	}
	want, err := m.Run(t.Context(), batch[1].in)
	if err != nil || batch[1].err != nil || !equal(batch[1].res.Out, want) {
		t.Errorf("a request got the answer %v, %v", batch[1].res.Out, batch[1].err)
	}
}

// A bad request does not spoil the batch.
func TestBadRequest(t *testing.T) {
	m := text(t, `<ir_version: 10, opset_import: ["" : 20]> g (int64[B,1] x) => (float[B,1,2] y)
	<float[2,2] table = {1, 2, 3, 4}> { y = Gather (table, x) }`)
	q := start(t, m, Options{Batch: "B", Delay: 20 * time.Millisecond})
	if joined, why := q.Joined(); !joined {
		t.Fatal(why)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		in := map[string]tensor.Datum{"x": tensor.FromSlice([]int64{int64(i % 4)}, 1, 1)}
		wg.Go(func() {
			got, err := q.Run(t.Context(), in, 0)
			if bad := i%4 > 1; bad != (err != nil) {
				t.Errorf("request %d: %v, %v", i, got.Out, err)
			}
		})
	}
	wg.Wait()
	if joined, why := q.Joined(); !joined {
		t.Error("errors ended joining:", why)
	}
}

// Requests beyond the limit are refused, those that expire while they wait are dropped, and level 1 goes first.
func TestLimits(t *testing.T) {
	m := small(t, false, "pool")
	synctest.Test(t, func(t *testing.T) {
		q, err := New(m, Options{Limit: 3, Levels: 2, Max: 8, Delay: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		run := func(ctx context.Context, name string, level, length int) {
			_, err := q.Run(ctx, map[string]tensor.Datum{"input": noise(1, 1, length, 2)}, level)
			mu.Lock()
			order = append(order, fmt.Sprintf("%s %v", name, err))
			mu.Unlock()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { run(t.Context(), "low", 2, 3) })
		synctest.Wait()
		wg.Go(func() { run(t.Context(), "high", 1, 4) })
		wg.Go(func() { run(ctx, "expired", 1, 5) })
		synctest.Wait()
		run(t.Context(), "full", 1, 6)
		if q.Waiting() != 3 {
			t.Errorf("%d requests wait", q.Waiting())
		}
		run(t.Context(), "level", 3, 6)
		wg.Wait()
		q.Close()
		run(t.Context(), "closed", 1, 6)
		all := strings.Join(order, "\n")
		want := []string{"full too many requests wait: 3", "level input \"priority\"", "expired context deadline exceeded", "low <nil>",
			"high <nil>", "closed queue is closed"}
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("expected %q in:\n%s", w, all)
			}
		}
	})
}

// Level 1 is taken before level 2, and equal levels in the order in which they came.
func TestPriority(t *testing.T) {
	m := small(t, false, "pool")
	q := start(t, m, Options{Levels: 2, Max: 1})
	r := func(key string) *request { return &request{ctx: t.Context(), key: key} }
	a, b, c := r("a"), r("b"), r("a")
	q.mu.Lock()
	defer q.mu.Unlock()
	q.levels, q.pending = [][]*request{{b}, {a, c}}, 3
	for _, want := range []*request{b, a, c} {
		first, n, _ := q.due()
		if got := q.take(first, n); len(got) != 1 || got[0] != want {
			t.Fatal("requests are taken in another order")
		}
	}
	if q.pending != 0 {
		t.Errorf("%d requests wait", q.pending)
	}
}

// A batch has a preferred size, or a power of two.
func TestSizes(t *testing.T) {
	m := small(t, false, "pool")
	q := start(t, m, Options{Preferred: []int{6}})
	q.mu.Lock()
	defer q.mu.Unlock()
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 5: 4, 6: 6, 7: 6, 8: 8, 31: 16, 32: 32, 50: 32} {
		q.levels[0] = nil
		for range n {
			q.levels[0] = append(q.levels[0], &request{ctx: t.Context(), key: "r"})
		}
		if got := q.size(q.levels[0][0], true); got != want {
			t.Errorf("%d requests: expected a batch of %d, found %d", n, want, got)
		}
	}
	q.levels[0] = nil
}

func TestOptions(t *testing.T) {
	m := small(t, false, "pool")
	for _, o := range []Options{{Workers: -1}, {Max: -1}, {Limit: -1}, {Levels: -1}, {Levels: 2, Default: 3},
		{Max: 4, Preferred: []int{5}}, {Preferred: []int{0}}} {
		if _, err := New(m, o); err == nil {
			t.Errorf("%+v are options", o)
		}
	}
}

// A context that ends cancels the run of its request.
func TestCancel(t *testing.T) {
	m := small(t, false, "pool")
	q := start(t, m, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Run(ctx, map[string]tensor.Datum{"input": noise(1, 1, 9, 2)}, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s, err := m.NewStream(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Step(ctx, s, map[string]tensor.Datum{"input": noise(1, 1, 9, 2)}, 0); !errors.Is(err, context.Canceled) || s.Steps() != 0 {
		t.Error(err, s.Steps())
	}
}

// A panic is an error of its batch, and the queue goes on.
func TestPanic(t *testing.T) {
	m := small(t, false, "pool")
	calls := 0
	q := start(t, m, Options{Ran: func(int, time.Duration) {
		if calls++; calls == 1 {
			panic("a bug")
		}
	}})
	in := map[string]tensor.Datum{"input": noise(1, 1, 4, 2)}
	if _, err := q.Run(t.Context(), in, 0); !errors.Is(err, runtime.ErrInternal) {
		t.Error(err)
	}
	if _, err := q.Run(t.Context(), in, 0); err != nil {
		t.Error(err)
	}
}

// A delay that is over before its worker waits is not missed.
func TestShortDelay(t *testing.T) {
	m := text(t, `<ir_version: 10, opset_import: ["" : 20]> g (float[B,2] x) => (float[B,2] y) { y = Relu (x) }`)
	q := start(t, m, Options{Batch: "B", Delay: 3 * time.Microsecond})
	in := map[string]tensor.Datum{"x": noise(1, 1, 2)}
	for range 3000 {
		if _, err := q.Run(t.Context(), in, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// What a worker leaves waiting is due for another worker, also while the first one is busy.
func TestOtherWorker(t *testing.T) {
	m := small(t, false, "pool")
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		var calls atomic.Int64
		q, err := New(m, Options{Workers: 2, Delay: time.Minute, Ran: func(int, time.Duration) {
			if calls.Add(1) == 1 {
				<-release
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		run := func(length int) {
			if _, err := q.Run(t.Context(), map[string]tensor.Datum{"input": noise(1, 1, length, 2)}, 0); err != nil {
				t.Error(err)
			}
		}
		var first sync.WaitGroup
		first.Go(func() { run(3) })
		time.Sleep(time.Second)
		run(4)
		close(release)
		first.Wait()
		q.Close()
	})
}
