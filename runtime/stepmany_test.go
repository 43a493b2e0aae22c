package runtime_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// Many streams that step together get what each gets by itself, bit by bit, whatever the others bring.
func TestStepMany(t *testing.T) {
	for _, mode := range []string{"none", "pool"} {
		single := mode == "none" // one step each, so that nearly all go together
		m := model(t, network(t, small(mode)), runtime.Options{Backend: cpu.New(), Threads: 2})
		if !runtime.Joinable(m) {
			t.Errorf("%s: streams do not step as one batch", mode)
		}
		const streams, rounds = 77, 4
		alone, together := make([]*runtime.Stream, streams), make([]*runtime.Stream, streams)
		for i := range streams {
			alone[i], together[i] = stream(t, m, 1+i%2), stream(t, m, 1+i%2)
		}
		ctx := context.Background()
		for round := range rounds {
			steps, want := make([]runtime.StreamStep, streams), make([]data, streams)
			for i := range streams {
				length := 1 + i%3
				if single {
					length = 1
				}
				x := noise(uint32(100*round+i), 1+i%2, length, 2)
				if i == 5 {
					tensor.Data[float32](x)[0] = float32(math.NaN())
				}
				want[i] = data{}
				if err := alone[i].Step(ctx, data{"input": x}, want[i]); err != nil {
					t.Fatal(err)
				}
				steps[i] = runtime.StreamStep{Stream: together[i], In: data{"input": x}, Out: data{}}
				if i%4 == 0 { // memory of the caller's
					steps[i].Out["output"] = want[i]["output"].(*tensor.Tensor).Clone()
				}
			}
			if err := m.StepMany(ctx, steps); err != nil {
				t.Fatal(err)
			}
			for i := range streams {
				if !tensor.Equal(want[i]["output"].(*tensor.Tensor), steps[i].Out["output"].(*tensor.Tensor)) {
					t.Errorf("%s, round %d: stream %d gets other answers together than alone", mode, round, i)
				}
			}
		}
		for i := range streams {
			if alone[i].Steps() != together[i].Steps() {
				t.Errorf("stream %d counts %d steps, expected %d", i, together[i].Steps(), alone[i].Steps())
			}
		}
	}
}

// Pairs of documents are not put side by side: the batch holds all left, then all right ones.
func TestStepManyPairs(t *testing.T) {
	c := small("pool")
	c.Decoder = essm.Decoder{Type: "retrieval", Mode: "pool", NLI: true, Activation: "gelu", DOutput: 3}
	m := model(t, network(t, c), runtime.Options{Backend: cpu.New()})
	if runtime.Joinable(m) {
		t.Error("streams of pairs step as one batch")
	}
	var steps []runtime.StreamStep
	for i := range 3 {
		steps = append(steps, runtime.StreamStep{Stream: stream(t, m, 2), In: data{"input": noise(uint32(i), 4, 5, 2)},
			Out: data{}})
	}
	if err := m.StepMany(context.Background(), steps); err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		out := data{}
		if err := stream(t, m, 2).Step(context.Background(), steps[i].In, out); err != nil {
			t.Fatal(err)
		}
		if !tensor.Equal(out["output"].(*tensor.Tensor), steps[i].Out["output"].(*tensor.Tensor)) {
			t.Errorf("stream %d gets another answer", i)
		}
	}
}

// What is wrong with one stream is that stream's error alone.
func TestStepManyErrors(t *testing.T) {
	m := model(t, network(t, small("none")), runtime.Options{Backend: cpu.New()})
	foreign := stream(t, model(t, network(t, small("none")), runtime.Options{Backend: cpu.New()}), 1)
	closed, twice := stream(t, m, 1), stream(t, m, 1)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	x := noise(1, 1, 2, 2)
	steps := []runtime.StreamStep{
		{Stream: stream(t, m, 1), In: data{"input": x}, Out: data{}},
		{Stream: twice, In: data{"input": x}, Out: data{}},
		{Stream: twice, In: data{"input": x}, Out: data{}},
		{Stream: closed, In: data{"input": x}, Out: data{}},
		{Stream: foreign, In: data{"input": x}, Out: data{}},
		{Stream: nil, In: data{"input": x}, Out: data{}},
		{Stream: stream(t, m, 1), In: data{"input": x}},
		{Stream: stream(t, m, 1), In: data{"inptu": x}, Out: data{}},
		{Stream: stream(t, m, 1), In: data{"input": noise(1, 2, 2, 2)}, Out: data{}},
		{Stream: stream(t, m, 1), In: data{"input": x}, Out: data{"output": x}},
		{Stream: stream(t, m, 1), In: data{"input": x}, Out: data{}},
	}
	want := []error{nil, nil, runtime.ErrBusy, runtime.ErrStreamClosed, runtime.ErrInput, runtime.ErrInput,
		runtime.ErrInput, runtime.ErrInput, runtime.ErrInput, runtime.ErrInput, nil}
	err := m.StepMany(context.Background(), steps)
	if !errors.Is(err, runtime.ErrBusy) || !strings.HasPrefix(err.Error(), "stream 2: ") {
		t.Errorf("found %v", err)
	}
	for i := range steps {
		if !errors.Is(steps[i].Err, want[i]) || want[i] == nil && steps[i].Err != nil {
			t.Errorf("stream %d: expected %v, found %v", i, want[i], steps[i].Err)
		}
		if s := steps[i].Stream; want[i] == nil && (s.Steps() != 2 || steps[i].Out["output"] == nil) {
			t.Errorf("stream %d counts %d steps and gets %v", i, s.Steps(), steps[i].Out)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.StepMany(ctx, steps[:2]); !errors.Is(err, context.Canceled) || steps[0].Stream.Steps() != 2 {
		t.Errorf("cancelled: %v", err)
	}
	if err := m.StepMany(context.Background(), nil); err != nil {
		t.Errorf("no streams: %v", err)
	}
	m.Close()
	if err := m.StepMany(context.Background(), steps[:1]); !errors.Is(err, runtime.ErrClosed) || steps[0].Err == nil {
		t.Errorf("after Close: %v", err)
	}
}

// Streams that step together again, into memory of the callers', allocate nothing, however they come in groups.
func TestStepManyAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("under the race detector pools forget")
	}
	for _, mode := range []string{"none", "last"} {
		for _, threads := range []int{1, 2, 4} {
			m := model(t, network(t, small(mode)), runtime.Options{Backend: cpu.New(), Threads: threads})
			ctx := context.Background()
			var steps []runtime.StreamStep
			for i := range 23 { // of one step 8, 4, 2 and 1 together, of two steps 8
				steps = append(steps, runtime.StreamStep{Stream: stream(t, m, 1),
					In: data{"input": noise(uint32(i), 1, 1+i%3/2, 2)}, Out: data{}})
			}
			run := func() {
				if err := m.StepMany(ctx, steps); err != nil {
					t.Fatal(err)
				}
			}
			run()
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%s, %d threads: %v allocations for %d streams", mode, threads, n, len(steps))
			}
		}
	}
}

// Working memory for streams together keeps to the limit of the model: where it would not, they step one by one.
func TestStepManyMemory(t *testing.T) {
	g := network(t, small("none"))
	const streams, steps = 64, 256
	run := func(limit int64) (*runtime.Model, []runtime.StreamStep) {
		m := model(t, g, runtime.Options{Backend: cpu.New(), Threads: 1, MaxMemory: limit})
		var all []runtime.StreamStep
		for i := range streams {
			all = append(all, runtime.StreamStep{Stream: stream(t, m, 1),
				In: data{"input": noise(uint32(i), 1, steps, 2)}, Out: data{}})
		}
		if err := m.StepMany(context.Background(), all); err != nil {
			t.Fatalf("limit %d: %v", limit, err)
		}
		return m, all
	}
	free, want := run(0)
	bound, got := run(256 << 10)
	for i := range want {
		if !tensor.Equal(want[i].Out["output"].(*tensor.Tensor), got[i].Out["output"].(*tensor.Tensor)) {
			t.Fatalf("stream %d gets another answer", i)
		}
	}
	if a, b := runtime.IdleBytes(free), runtime.IdleBytes(bound); b > 256<<10 || a <= 256<<10 {
		t.Errorf("%d bytes are idle without a limit, %d with one of %d", a, b, 256<<10)
	}
}
