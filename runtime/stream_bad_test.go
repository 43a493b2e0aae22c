package runtime_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// Whatever a stream is given that it cannot take is a typed error of one line, and leaves the stream as it was.
func TestStreamBadInput(t *testing.T) {
	m := model(t, network(t, small("none")), runtime.Options{Backend: cpu.New(), Threads: 1})
	tight := stream(t, model(t, network(t, small("none")),
		runtime.Options{Backend: cpu.New(), Threads: 1, MaxMemory: 4096}), 1)
	another := model(t, network(t, small("last")), runtime.Options{Backend: cpu.New(), Threads: 1})
	ctx := context.Background()
	step := func(in, out data) func(*runtime.Stream) error {
		return func(s *runtime.Stream) error { return s.Step(ctx, in, out) }
	}
	restore := func(change func(b []byte) []byte) func(*runtime.Stream) error {
		return func(s *runtime.Stream) error {
			b, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s.Restore(change(b))
		}
	}
	snapshot := func(m *runtime.Model, batch int) func([]byte) []byte {
		return func([]byte) []byte {
			b, err := stream(t, m, batch).Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	x := noise(1, 1, 3, 2)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for name, c := range map[string]struct {
		do   func(s *runtime.Stream) error
		is   error
		want string
	}{
		"features": {step(data{"input": noise(1, 1, 3, 5)}, data{}), runtime.ErrInput,
			`input "input": dimension 2: expected 2, found 5`},
		"rank": {step(data{"input": noise(1, 1, 3, 2).Clone()}, data{"output": floats(3)}),
			runtime.ErrInput, `output "output": expected shape`},
		"dimensions": {step(data{"input": floats(3, 2)}, data{}), runtime.ErrInput,
			`input "input": expected 3 dimensions`},
		"samples": {step(data{"input": noise(1, 2, 3, 2)}, data{}), runtime.ErrInput,
			`the stream has B = 1, found 2`},
		"element type": {step(data{"input": tensor.New(tensor.Int64, 1, 3, 2)}, data{}), runtime.ErrInput,
			`expected element type float32, found int64`},
		"name": {step(data{"input": x, "inptu": x}, data{}), runtime.ErrInput,
			`input "inptu": the model has no such input`},
		"its own state": {step(data{"input": x, "state_in": floats(1, 8)}, data{}), runtime.ErrInput,
			`input "state_in": the model has no such input`},
		"missing": {step(data{}, data{}), runtime.ErrInput, `input "input": is missing`},
		"nil":     {step(nil, data{}), runtime.ErrInput, `input "input": is missing`},
		"no steps": {step(data{"input": floats(1, 0, 2)}, data{}), runtime.ErrInput,
			`a sequence has at least one step`},
		"output name": {step(data{"input": x}, data{"state_out": nil}), runtime.ErrInput,
			`output "state_out": the model has no such output`},
		"output type": {step(data{"input": x}, data{"output": tensor.New(tensor.Float64, 1, 3, 2)}),
			runtime.ErrInput, `output "output": expected a tensor of float32`},
		"output and input": {step(data{"input": x}, data{"output": x}), runtime.ErrInput, `output "output": `},
		"no outputs":       {step(data{"input": x}, nil), runtime.ErrInput, `expected a map for the outputs`},
		"memory": {func(*runtime.Stream) error { return tight.Step(ctx, data{"input": noise(1, 1, 1000, 2)}, data{}) },
			runtime.ErrMemory,
			`bytes of memory, the limit is 4096`},
		"cancelled": {func(s *runtime.Stream) error { return s.Step(cancelled, data{"input": x}, data{}) },
			context.Canceled, `canceled`},

		"snapshot, empty":     {restore(func([]byte) []byte { return nil }), runtime.ErrSnapshot, "expected the signature of a snapshot"},
		"snapshot, truncated": {restore(func(b []byte) []byte { return b[:len(b)-1] }), runtime.ErrSnapshot, `truncated`},
		"snapshot, extended": {restore(func(b []byte) []byte { return append(b, 0) }), runtime.ErrSnapshot,
			`extra bytes`},
		"snapshot, flipped": {restore(func(b []byte) []byte { b[len(b)/2] ^= 4; return b }), runtime.ErrSnapshot,
			`checksum`},
		"snapshot, newer": {restore(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[8:], 2); return b }),
			runtime.ErrSnapshot, `has format 2, this program reads format 1`},
		"snapshot, of another": {restore(snapshot(another, 1)), runtime.ErrSnapshot, `is of the model with hash`},
		"snapshot, of two": {restore(snapshot(m, 2)), runtime.ErrSnapshot,
			`is of a stream of 2 samples, this one has 1`},

		"state, name": {func(s *runtime.Stream) error { return s.SetState(map[string]*tensor.Tensor{"z": floats(1)}) },
			runtime.ErrInput, `input "z": the model has no such state`},
		"state, shape": {func(s *runtime.Stream) error {
			return s.SetState(map[string]*tensor.Tensor{s.States()[0].Name: floats(1)})
		}, runtime.ErrInput, `found float32[1]`},
		"state, nil": {func(s *runtime.Stream) error {
			return s.SetState(map[string]*tensor.Tensor{s.States()[0].Name: nil})
		}, runtime.ErrInput, `found none`},
	} {
		s := stream(t, m, 1)
		if err := s.Step(ctx, data{"input": noise(9, 1, 5, 2)}, data{}); err != nil {
			t.Fatal(err)
		}
		before, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.do(s); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: expected %v and %q, found %v", name, c.is, c.want, err)
		}
		if after, err := s.Snapshot(); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: has changed the stream (%v)", name, err)
		}
	}
	for _, batch := range []int{-1, 0} {
		if _, err := m.NewStream(batch); !errors.Is(err, runtime.ErrOption) {
			t.Errorf("%d samples: %v", batch, err)
		}
	}
	if _, err := m.NewStream(1 << 30); !errors.Is(err, runtime.ErrMemory) {
		t.Errorf("2^30 samples: %v", err)
	}
	if _, err := m.NewStream(math.MaxInt); !errors.Is(err, runtime.ErrMemory) && !errors.Is(err, runtime.ErrOption) {
		t.Errorf("as many samples as there are numbers: %v", err)
	}
	s := stream(t, m, 1)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	_, snap := s.Snapshot()
	_, state := s.State()
	for name, err := range map[string]error{"step": s.Step(ctx, data{"input": x}, data{}), "reset": s.Reset(),
		"snapshot": snap, "state": state,
		"restore": s.Restore(nil), "set": s.SetState(nil)} {
		if !errors.Is(err, runtime.ErrStreamClosed) || !errors.Is(err, runtime.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}
