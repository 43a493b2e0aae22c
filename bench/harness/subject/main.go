// Command subject is the program that `go run ./bench -base COMMIT` compares. It is compiled in the trees of two
// commits, and runs jobs on request, like the peers (see bench/peers/protocol.py):
//
//	load preset DIR INPUT.npy THREADS                 a model directory, run on an input
//	load stream DIR INPUT.npy THREADS STREAMS         a step of STREAMS streams, of the input's length
//	load plan DIR                                     the model's plan to a session
//	load model FILE.onnx THREADS NAME=FILE.npy …      an ONNX file, run on inputs
//	load first FILE.onnx THREADS NAME=FILE.npy …      an ONNX file to its first answer
//	facts ID                                          → a hash of the answers, the minimum of a run's allocations
//	run ID REPS                                       → nanoseconds, processor time
//	drop ID
//
// It may import the standard library, and the packages of the project that older commits also have. Differences
// between commits are in open.go, and in its variants for earlier ones. Both builds read the same input files and
// create everything else themselves.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Println("error\texpected a folder for files")
		os.Exit(1)
	}
	s := &subject{dir: os.Args[1]}
	fmt.Printf("ready\tessmc, kernels %s\n", cpu.Kernels())
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		answer, err := s.handle(context.Background(), strings.Split(in.Text(), "\t"))
		if err != nil {
			answer = "error\t" + strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Println(answer)
	}
}

// subject keeps the jobs of a process. A dropped job is nil.
type subject struct {
	dir  string // for files
	jobs []*job
}

// job is a measured piece of work.
type job struct {
	run     func() error
	answers func() (map[string]tensor.Datum, error) // those of a fresh start
	close   func()
}

func (s *subject) handle(ctx context.Context, words []string) (string, error) {
	switch {
	case words[0] == "load" && len(words) > 1:
		j, err := s.load(ctx, words[1], words[2:])
		if err != nil {
			return "", err
		}
		s.jobs = append(s.jobs, j)
		return fmt.Sprintf("ok\t%d", len(s.jobs)-1), nil
	case len(words) < 2:
		return "", fmt.Errorf("unknown request %q", words)
	}
	id, err := strconv.Atoi(words[1])
	if err != nil || id < 0 || id >= len(s.jobs) || s.jobs[id] == nil {
		return "", fmt.Errorf("no such job: %q", words[1])
	}
	j := s.jobs[id]
	switch {
	case words[0] == "run" && len(words) == 3:
		reps, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		return j.time(reps)
	case words[0] == "facts" && len(words) == 2:
		return j.facts()
	case words[0] == "drop" && len(words) == 2:
		j.close()
		s.jobs[id] = nil
		goruntime.GC() // so that it does not run during another job
		return "ok", nil
	}
	return "", fmt.Errorf("unknown request %q", words)
}

// time runs the job reps times.
func (j *job) time(reps int) (string, error) {
	start, before := time.Now(), processorTime()
	for range reps {
		if err := j.run(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("ok\t%d\t%d", time.Since(start), processorTime()-before), nil
}

// facts returns properties that do not depend on the load of the machine.
func (j *job) facts() (string, error) {
	out, err := j.answers()
	if err != nil {
		return "", err
	}
	hash, err := hashOf(out)
	if err != nil {
		return "", err
	}
	least := uint64(math.MaxUint64)
	for start, n := time.Now(), 0; n < 3 || n < 50 && time.Since(start) < 200*time.Millisecond; n++ {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		if err := j.run(); err != nil {
			return "", err
		}
		goruntime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return fmt.Sprintf("ok\t%s\t%d", hash, least), nil
}

// hashOf returns a hash of answers, bit by bit.
func hashOf(out map[string]tensor.Datum) (string, error) {
	names := make([]string, 0, len(out))
	for name := range out {
		names = append(names, name)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		t, ok := out[name].(*tensor.Tensor)
		if !ok {
			return "", fmt.Errorf("output %q: expected a tensor, found %T", name, out[name])
		}
		fmt.Fprintf(h, "%q %v %v ", name, t.DType(), t.Shape())
		if t.DType() == tensor.String {
			fmt.Fprintf(h, "%q", t.Strings())
		} else {
			h.Write(t.Bytes())
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
}

func (s *subject) load(ctx context.Context, kind string, words []string) (*job, error) {
	wrong := fmt.Errorf("load %s: unexpected %q", kind, words)
	switch {
	case kind == "preset" && len(words) == 3:
		return loadPreset(ctx, words[0], words[1], words[2])
	case kind == "stream" && len(words) == 4:
		return loadStream(ctx, words[0], words[1], words[2], words[3])
	case kind == "plan" && len(words) == 1:
		return loadPlan(words[0], filepath.Join(s.dir, strconv.Itoa(len(s.jobs))+".essm"))
	case kind == "model" && len(words) >= 2:
		return loadModel(ctx, words[0], words[1], words[2:])
	case kind == "first" && len(words) >= 2:
		return loadFirst(ctx, words[0], words[1], words[2:])
	}
	return nil, wrong
}

// options returns the options for a number of threads.
func options(threads string) (runtime.Options, error) {
	n, err := strconv.Atoi(threads)
	if err != nil || n < 1 {
		return runtime.Options{}, fmt.Errorf("expected a number of threads, found %q", threads)
	}
	return runtime.Options{Backend: cpu.New(), Threads: n}, nil
}

// preset prepares the directory of a preset, with an input.
func preset(dir, input, threads string) (*runtime.Model, map[string]tensor.Datum, error) {
	o, err := options(threads)
	if err != nil {
		return nil, nil, err
	}
	g, err := openDirectory(dir)
	if err != nil {
		return nil, nil, err
	}
	x, err := arrays.Read(input)
	if err != nil {
		return nil, nil, err
	}
	m, err := runtime.New(g, o)
	if err != nil {
		return nil, nil, err
	}
	return m, map[string]tensor.Datum{m.Inputs()[0].Name: x.Tensor}, nil
}

func loadPreset(ctx context.Context, dir, input, threads string) (*job, error) {
	m, in, err := preset(dir, input, threads)
	if err != nil {
		return nil, err
	}
	return running(ctx, m, in)
}

// running returns a job that runs a model.
func running(ctx context.Context, m *runtime.Model, in map[string]tensor.Datum) (*job, error) {
	s := m.NewSession()
	out, err := s.Run(ctx, in)
	if err != nil {
		return nil, errors.Join(err, s.Close(), m.Close())
	}
	return &job{
		run:     func() error { return s.RunInto(ctx, in, out) },
		answers: func() (map[string]tensor.Datum, error) { return s.Run(ctx, in) },
		close:   func() { _, _ = s.Close(), m.Close() },
	}, nil
}

// streamSteps is the number of steps after which the answers of a stream are compared.
const streamSteps = 20

func loadStream(ctx context.Context, dir, input, threads, streams string) (*job, error) {
	n, err := strconv.Atoi(streams)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("expected a number of streams, found %q", streams)
	}
	m, in, err := preset(dir, input, threads)
	if err != nil {
		return nil, err
	}
	steps := make([]runtime.StreamStep, n)
	fresh := func() error {
		for i := range steps {
			s, err := m.NewStream(1)
			if err != nil {
				return err
			}
			steps[i] = runtime.StreamStep{Stream: s, In: in, Out: map[string]tensor.Datum{}}
		}
		return nil
	}
	run := func() error { return m.StepMany(ctx, steps) }
	if n == 1 {
		run = func() error { return steps[0].Stream.Step(ctx, in, steps[0].Out) }
	}
	answers := func() (map[string]tensor.Datum, error) {
		if err := fresh(); err != nil {
			return nil, err
		}
		for range streamSteps {
			if err := run(); err != nil {
				return nil, err
			}
		}
		return steps[n-1].Out, nil
	}
	if _, err := answers(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &job{run: run, answers: answers, close: func() { _ = m.Close() }}, nil
}

// loadPlan measures the time from a plan to a session. The plan is this build's own.
func loadPlan(dir, file string) (*job, error) {
	o, err := options("1")
	if err != nil {
		return nil, err
	}
	g, err := openDirectory(dir)
	if err != nil {
		return nil, err
	}
	if err := plan.WriteFile(file, g); err != nil {
		return nil, err
	}
	j := &job{run: func() error {
		m, err := runtime.Load(file, o)
		if err != nil {
			return err
		}
		return errors.Join(m.NewSession().Close(), m.Close())
	}}
	j.answers = func() (map[string]tensor.Datum, error) { return nil, nil }
	j.close = func() { _ = os.Remove(file) }
	return j, j.run()
}

// readInputs reads NAME=FILE.npy.
func readInputs(words []string) (map[string]tensor.Datum, error) {
	in := map[string]tensor.Datum{}
	for _, w := range words {
		name, file, ok := strings.Cut(w, "=")
		if !ok {
			return nil, fmt.Errorf("expected NAME=FILE, found %q", w)
		}
		a, err := arrays.Read(file)
		if err != nil {
			return nil, err
		}
		in[name] = a.Tensor
	}
	return in, nil
}

func loadModel(ctx context.Context, file, threads string, words []string) (*job, error) {
	o, err := options(threads)
	if err != nil {
		return nil, err
	}
	in, err := readInputs(words)
	if err != nil {
		return nil, err
	}
	g, err := openONNX(file)
	if err != nil {
		return nil, err
	}
	m, err := runtime.New(g, o)
	if err != nil {
		return nil, err
	}
	return running(ctx, m, in)
}

// loadFirst measures the time from an ONNX file to its first answer.
func loadFirst(ctx context.Context, file, threads string, words []string) (*job, error) {
	o, err := options(threads)
	if err != nil {
		return nil, err
	}
	in, err := readInputs(words)
	if err != nil {
		return nil, err
	}
	answers := func() (map[string]tensor.Datum, error) {
		g, err := openONNX(file)
		if err != nil {
			return nil, err
		}
		m, err := runtime.New(g, o)
		if err != nil {
			return nil, err
		}
		s := m.NewSession()
		out, err := s.Run(ctx, in)
		return out, errors.Join(err, s.Close(), m.Close())
	}
	run := func() error {
		_, err := answers()
		return err
	}
	return &job{run: run, answers: answers, close: func() {}}, run()
}
