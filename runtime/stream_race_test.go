package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// Goroutines do everything at once with few streams of a model, which is closed meanwhile: each call succeeds, or says that
// somebody else has the stream, or that it is closed; and what a step answered is what it answers alone.
func TestStreamMixedCalls(t *testing.T) {
	m := model(t, network(t, small("none")), runtime.Options{Backend: cpu.New(), Threads: 2})
	ctx := context.Background()
	x := noise(3, 1, 2, 2)
	first := stream(t, m, 1)
	start, err := first.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	want := data{}
	if err := first.Step(ctx, data{"input": x}, want); err != nil {
		t.Fatal(err)
	}
	streams := make([]*runtime.Stream, 5)
	for i := range streams {
		streams[i] = stream(t, m, 1)
	}
	var wg, warm sync.WaitGroup
	warm.Add(32)
	for k := range 32 {
		wg.Go(func() {
			var once sync.Once
			defer once.Do(warm.Done)
			for i := range 40 {
				if i == 20 {
					once.Do(warm.Done)
				}
				s := streams[(k+i)%len(streams)]
				var err error
				switch (k + i/3) % 8 {
				case 0:
					err = s.Step(ctx, data{"input": x}, data{})
				case 1:
					steps := make([]runtime.StreamStep, len(streams))
					for j := range steps {
						steps[j] = runtime.StreamStep{Stream: streams[j], In: data{"input": x}, Out: data{}}
					}
					err = m.StepMany(ctx, steps)
				case 2:
					err = s.Restore(start)
				case 3:
					_, err = s.Snapshot()
				case 4:
					err = s.Reset()
				case 5:
					var state map[string]*tensor.Tensor
					if state, err = s.State(); err == nil {
						err = s.SetState(state)
					}
				case 6:
					if i%10 == 9 {
						err = s.Close()
					}
				default: // one of its own
					var own *runtime.Stream
					if own, err = m.NewStream(1); err == nil {
						got := data{}
						if err = own.Step(ctx, data{"input": x}, got); err == nil &&
							!tensor.Equal(got["output"].(*tensor.Tensor), want["output"].(*tensor.Tensor)) {
							t.Error("another answer")
						}
					}
				}
				if err != nil && !errors.Is(err, runtime.ErrBusy) && !errors.Is(err, runtime.ErrClosed) {
					t.Errorf("found %v", err)
				}
			}
		})
	}
	wg.Go(func() {
		warm.Wait()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
}

// A step that failed half way through a batch leaves all its streams as they were.
func TestStepManyCancelled(t *testing.T) {
	m := model(t, network(t, small("none")), runtime.Options{Backend: cpu.New(), Threads: 1})
	steps := make([]runtime.StreamStep, 9)
	var before [][]byte
	for i := range steps {
		s := stream(t, m, 1)
		if err := s.Step(context.Background(), data{"input": noise(uint32(i), 1, 2, 2)}, data{}); err != nil {
			t.Fatal(err)
		}
		b, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, b)
		steps[i] = runtime.StreamStep{Stream: s, In: data{"input": noise(1, 1, 2, 2)}, Out: data{}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.StepMany(ctx, steps); !errors.Is(err, context.Canceled) {
		t.Fatalf("found %v", err)
	}
	for i, s := range steps {
		if after, err := s.Stream.Snapshot(); err != nil || !bytes.Equal(after, before[i]) ||
			!errors.Is(s.Err, context.Canceled) {
			t.Errorf("stream %d: %v, %v", i, s.Err, err)
		}
	}
}
