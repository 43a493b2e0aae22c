package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// Limits of a service that loads models of strangers, beside open.Untrusted.
const (
	memory   = 64 << 20               // of a session; more would hide uncounted allocations
	opening  = 2 * time.Second        // until the context of opening ends
	deadline = 100 * time.Millisecond // of a run, and of a step of a stream
)

// report is what a child process tells of a model.
type report struct {
	Opened, Ran, Stepped time.Duration // processor time of each
	Err                  string        // of the run, or of opening
	StepErr              string
	Peak                 int64 // the most bytes of the process that were resident; 0 where unknown
}

// childVariable names the file that a child opens, backendVariable the backend that runs it.
const childVariable, backendVariable = "ESSMC_HOSTILE_FILE", "ESSMC_HOSTILE_BACKEND"

// TestMain is a child where the variable is set.
func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		b := cpu.New()
		if os.Getenv(backendVariable) == "ref" {
			b = ref.New()
		}
		bound(8 << 30)
		r := try(path, b)
		r.Peak = peak()
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// try opens a model, runs it, and takes a step of a stream, each within its limits.
func try(path string, b runtime.Backend) report {
	var r report
	clock := func(took *time.Duration) func() {
		start := worktime.Now()
		return func() { *took = worktime.Now() - start }
	}
	done := clock(&r.Opened)
	ctx, cancel := context.WithTimeout(context.Background(), opening)
	defer cancel()
	model, err := open.Load(path, options(ctx, b))
	done()
	if err != nil {
		r.Err = err.Error()
		return r
	}
	done = clock(&r.Ran)
	_, err = run(model)
	done()
	if err != nil {
		r.Err = err.Error()
	}
	done = clock(&r.Stepped)
	err = step(model)
	done()
	if err != nil {
		r.StepErr = err.Error()
	}
	return r
}

func options(ctx context.Context, b runtime.Backend) open.Options {
	o := open.Untrusted()
	o.Context, o.Run.Backend, o.Run.MaxMemory = ctx, b, memory
	return o
}

func run(model *runtime.Model) (map[string]tensor.Datum, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	in, err := inputs(model.Inputs(), 4)
	if err != nil {
		return nil, err
	}
	return model.NewSession().Run(ctx, in)
}

func step(model *runtime.Model) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	s, err := model.NewStream(1)
	if err != nil {
		return err
	}
	in, err := inputs(s.Inputs(), 1)
	if err != nil {
		return err
	}
	out := map[string]tensor.Datum{}
	for range 3 {
		if err := s.Step(ctx, in, out); err != nil {
			return err
		}
	}
	return s.Close()
}

// inputs makes values for inputs: integers of 2^27, small numbers, and texts. A batch is of one
// sample, and other open dimensions are of the given length.
func inputs(ports []runtime.Port, length int) (map[string]tensor.Datum, error) {
	in := map[string]tensor.Datum{}
	for _, p := range ports {
		typ, ok := p.Type.(*ir.TensorType)
		if p.Optional {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("input %q is %v: no value for it", p.Name, p.Type)
		}
		shape := make([]int, len(typ.Shape))
		for i, d := range typ.Shape {
			shape[i] = length
			if n, ok := d.Known(); ok {
				shape[i] = int(n)
			} else if d.String() == "B" {
				shape[i] = 1
			}
		}
		t, err := fill(typ.Elem, shape)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", p.Name, err)
		}
		in[p.Name] = t
	}
	return in, nil
}

func fill(d tensor.DType, shape []int) (*tensor.Tensor, error) {
	if n, err := tensor.Size(shape); err != nil {
		return nil, err
	} else if n > 1<<24 {
		return nil, errors.New("an input of this size is none that a service accepts")
	}
	t := tensor.New(d, shape...)
	switch {
	case d == tensor.Int64:
		for i := range t.Len() {
			tensor.Data[int64](t)[i] = 1 << 27
		}
	case d == tensor.Float32:
		for i := range t.Len() {
			tensor.Data[float32](t)[i] = float32(i*7919%1000)/1000 - 0.5
		}
	case d == tensor.String:
		for i := range t.Strings() {
			t.Strings()[i] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"
		}
	}
	return t, nil
}

// child tries a model in a process of its own.
func child(t *testing.T, path, backend string) report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVariable+"="+path, backendVariable+"="+backend)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("the process ended: %v\n%.3000s", err, stderr.String())
	}
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v in %.1000s", err, stdout.String())
	}
	return r
}
