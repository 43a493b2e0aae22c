package runtime_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
	"github.com/essmc/essmc/runtime/ref"
)

// TestModelRun calls Run from many goroutines, with inputs of several shapes: each gets the answer of a session.
func TestModelRun(t *testing.T) {
	m := model(t, network(t, small("pool")), runtime.Options{Backend: cpu.New(), Sessions: 3})
	var inputs, want []data
	for i := range 6 {
		in := data{"input": noise(uint32(i), 1+i%2, 3+i, 2)}
		out, err := m.NewSession().Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		inputs, want = append(inputs, in), append(want, out)
	}
	var all sync.WaitGroup
	for g := range 12 {
		all.Go(func() {
			for i := range 20 {
				k := (g + i) % len(inputs)
				out, err := m.Run(context.Background(), inputs[k])
				if err != nil {
					t.Error(err)
					return
				}
				if !tensor.Equal(out["output"].(*tensor.Tensor), want[k]["output"].(*tensor.Tensor)) {
					t.Errorf("input %d: another answer than a session's", k)
				}
			}
		})
	}
	all.Wait()
	if n, _ := runtime.Idle(m); n < 1 || n > 3 {
		t.Errorf("%d idle sessions, expected 1 to 3", n)
	}
}

// TestModelRunBounds tests that Sessions bounds the calls that run, that a call that waits ends with its context, and that
// Close waits for those that run and ends the others.
func TestModelRunBounds(t *testing.T) {
	m := model(t, chain(t, ir.Tensor(tensor.Float32, "L"), "Block"), runtime.Options{Sessions: 1})
	b := blocker{make(chan struct{}), make(chan struct{})}
	first := make(chan error, 1)
	go func() {
		_, err := m.Run(context.WithValue(context.Background(), blockerKey{}, b), data{"x": floats(3)})
		first <- err
	}()
	<-b.began
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := m.Run(ctx, data{"x": floats(3)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second call: found %v, expected it to wait until its context ends", err)
	}
	second, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := m.Run(context.Background(), data{"x": floats(3)})
		second <- err
	}()
	go func() { closed <- m.Close() }()
	for { // until Close has begun
		if _, err := m.Hash(); errors.Is(err, runtime.ErrClosed) {
			break
		}
		goruntime.Gosched()
	}
	close(b.end)
	if err := <-first; err != nil {
		t.Errorf("the call that ran: %v", err)
	}
	if err := <-second; !errors.Is(err, runtime.ErrClosed) {
		t.Errorf("the call that waited: found %v, expected ErrClosed", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := m.Run(context.Background(), data{"x": floats(3)}); !errors.Is(err, runtime.ErrClosed) {
		t.Errorf("after Close: found %v", err)
	}
	if n, held := runtime.Idle(m); n != 0 || held != 0 {
		t.Errorf("%d sessions with %d bytes are kept after Close", n, held)
	}
}

// TestModelRunMemory tests that idle sessions keep at most MaxMemory, and that a call that needs more fails alone.
func TestModelRunMemory(t *testing.T) {
	g := network(t, small("pool"))
	s := model(t, g, runtime.Options{Backend: cpu.New()}).NewSession()
	if _, err := s.Run(context.Background(), data{"input": noise(1, 1, 40, 2)}); err != nil {
		t.Fatal(err)
	}
	limit := 3 * s.Memory()
	m := model(t, g, runtime.Options{Backend: cpu.New(), MaxMemory: limit, Sessions: 8})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 {
				if _, err := m.Run(context.Background(), data{"input": noise(1, 1, 40, 2)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n, held := runtime.Idle(m); n < 1 || held > limit {
		t.Errorf("%d idle sessions keep %d bytes, the limit is %d", n, held, limit)
	}
	if _, err := m.Run(context.Background(), data{"input": noise(1, 1000, 4000, 2)}); !errors.Is(err, runtime.ErrMemory) {
		t.Errorf("a large input: found %v", err)
	}
	if _, err := m.Run(context.Background(), data{"input": noise(1, 1, 40, 2)}); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestOutput(t *testing.T) {
	out := data{"probs": noise(1, 2, 3), "label": tensor.FromStrings([]string{"cat"}, 1), "half": tensor.New(tensor.Float16, 2),
		"none": &tensor.Optional{}, "some": &tensor.Optional{Value: floats(2)}, "list": &tensor.Sequence{}}
	probs, shape, err := runtime.Output[float32](out, "probs")
	if err != nil || len(probs) != 6 || len(shape) != 2 || shape[0] != 2 || shape[1] != 3 {
		t.Errorf("%v %v (%v)", probs, shape, err)
	}
	if label, _, err := runtime.Output[string](out, "label"); err != nil || len(label) != 1 || label[0] != "cat" {
		t.Errorf("%v (%v)", label, err)
	}
	if some, _, err := runtime.Output[float32](out, "some"); err != nil || len(some) != 2 {
		t.Errorf("%v (%v)", some, err)
	}
	for name, want := range map[string]string{
		"prob": `output "prob": the model has no such output; it has half, label, list, none, probs, some; did you mean "probs"?`,
		"half": `output "half": expected elements of float32, found float16[2]; ask for tensor.F16, or convert the tensor by ` +
			`Tensor.Convert`,
		"none": `output "none": expected a tensor, found nothing`,
		"list": `output "list": expected a tensor, found a sequence of 0`,
	} {
		if _, _, err := runtime.Output[float32](out, name); !errors.Is(err, runtime.ErrInput) || err.Error() != want {
			t.Errorf("found %v, expected %s", err, want)
		}
	}
}

// TestMisspelled tests that the only input under a wrong name is named in the error, and not the missing one.
func TestMisspelled(t *testing.T) {
	m := model(t, network(t, small("pool")), runtime.Options{Backend: ref.New()})
	_, err := m.Run(context.Background(), data{"Input": noise(1, 1, 2, 2)})
	const want = `input "Input": the model has no such input; it has input, state_in; did you mean "input"?`
	if err == nil || err.Error() != want {
		t.Errorf("found %v, expected %s", err, want)
	}
	_, err = m.Run(context.Background(), data{"input": tensor.New(tensor.Float64, 1, 2, 2)})
	const convert = `input "input": expected element type float32, found float64; convert it: Tensor.Convert(tensor.Float32, false)`
	if err == nil || err.Error() != convert {
		t.Errorf("found %v, expected %s", err, convert)
	}
}

// TestLoadOther tests the advice for files that are not plans, and for plans with operators that are not registered.
func TestLoadOther(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "m.onnx")
	if err := os.WriteFile(file, []byte("\x08\x07 an ONNX file"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir} {
		_, err := runtime.Load(path, runtime.Options{Backend: ref.New()})
		if err == nil || !strings.Contains(err.Error(), path) || !strings.HasSuffix(err.Error(), "package runtime loads only plans, "+
			"which essmc compile writes: open ONNX files, model directories and IR text by open.Load of "+
			"github.com/essmc/essmc/frontend/open") {
			t.Errorf("%s: found %v", path, err)
		}
	}
	if _, err := runtime.Load(filepath.Join(dir, "none"), runtime.Options{Backend: ref.New()}); !errors.Is(err, os.ErrNotExist) ||
		strings.Contains(err.Error(), "open.Load") {
		t.Errorf("found %v", err)
	}
	unknown := &plan.UnknownOpsError{File: "m.essm", Ops: []plan.UnknownOp{
		{Domain: "ai.onnx.ml", Name: "Imputer", Since: 1, Nodes: []string{"a"}},
		{Domain: "com.microsoft", Name: "Tokenizer", Since: 1, Nodes: []string{"b"}},
		{Domain: "com.microsoft", Name: "Inverse", Since: 1, Nodes: []string{"c"}}}}
	if msg := unknown.Error(); !strings.HasSuffix(msg, `; add import _ "github.com/essmc/essmc/ops/ml" and import _ `+
		`"github.com/essmc/essmc/ops/microsoft", or open the plan by package frontend/open, which has all operators`) {
		t.Errorf("found %s", msg)
	}
}
