package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// streamChunk is the larger size of chunks for streams, in steps.
const streamChunk = 16

// togetherCounts are the numbers of streams that step together.
var togetherCounts = []int{1, 8, 64}

func runStream(ctx context.Context, e *env, r *result) error {
	chunk := strconv.Itoa(streamChunk)
	alone := table{Title: "One stream", Header: []string{"preset", "a step, 1t",
		"a step, " + strconv.Itoa(e.threads) + "t", "of " + chunk + " at once, 1t", "ONNX Runtime, 1t",
		"ONNX Runtime : essmc, 1t", "allocations"},
		Note: "*of " + chunk + " at once*: a step of a chunk of " + chunk +
			". ONNX Runtime in the faster of two forms: as exported, and a graph for one step."}
	together := table{Title: "Many streams, 1 thread", Header: []string{"preset"},
		Note: "One step of each stream (StepMany), divided by the streams."}
	for _, n := range togetherCounts {
		together.Header = append(together.Header, fmt.Sprintf("%d together", n))
	}
	together.Header = append(together.Header, "one by one : together", "steps per second", "allocations")
	last := together.Header[len(togetherCounts)]
	for _, p := range e.presets() {
		e.progress("  %s", p.id)
		s, allocs, err := e.streams(ctx, p.id)
		if err != nil {
			return err
		}
		one, ort := "1 thread", s.fastest(ortGroup(1))
		per := scaled(s.of("chunk"), streamChunk)
		alone.add(p.id, seconds(s.of(one)), seconds(s.of(threadsName(e.threads))), seconds(per), seconds(s.of(ort)),
			s.ratio(ort, one).String(), number(allocs.alone))
		row := []string{p.id}
		for i, n := range togetherCounts {
			row = append(row, seconds(scaled(s.of(together.Header[1+i]), n)))
		}
		gain := s.ratio(one, last)
		n := float64(togetherCounts[len(togetherCounts)-1])
		gain.mid, gain.low, gain.high = gain.mid*n, gain.low*n, gain.high*n
		together.Rows = append(together.Rows, append(row, gain.String(), number(n/median(s.of(last))),
			number(allocs.together)))
	}
	r.Tables = append(r.Tables, alone, together)
	return nil
}

// scaled divides times by n.
func scaled(t []float64, n int) []float64 {
	out := make([]float64, len(t))
	for i, v := range t {
		out[i] = v / float64(n)
	}
	return out
}

// streamAllocations are the allocations of one step, and of a step of many streams together.
type streamAllocations struct{ alone, together float64 }

// streams measures steps of a preset made causal.
func (e *env) streams(ctx context.Context, id string) (s *samples, allocs streamAllocations, err error) {
	m, err := newModel(e, id, [2]string{"layer.bidirectional", "false"})
	if err != nil {
		return nil, allocs, err
	}
	x, _, err := m.input(1, 1)
	if err != nil {
		return nil, allocs, err
	}
	var all []contender
	var single *runtime.Model
	for _, threads := range e.threadCounts() {
		o, err := runtime.New(m.graph, runtime.Options{Backend: cpu.New(), Threads: threads})
		if err != nil {
			return nil, allocs, err
		}
		defer o.Close()
		if single == nil {
			single = o
		}
		c, err := m.stepping(ctx, o, threadsName(threads), x)
		if err != nil {
			return nil, allocs, err
		}
		all = append(all, c)
	}
	if allocs.alone, err = allocations(all[0]); err != nil {
		return nil, allocs, err
	}
	long, _, err := m.input(1, streamChunk)
	if err != nil {
		return nil, allocs, err
	}
	c, err := m.stepping(ctx, single, "chunk", long)
	if err != nil {
		return nil, allocs, err
	}
	all = append(all, c)
	for _, n := range togetherCounts {
		c, err := m.steppingTogether(ctx, single, fmt.Sprintf("%d together", n), x, n)
		if err != nil {
			return nil, allocs, err
		}
		if allocs.together, err = allocations(c); err != nil {
			return nil, allocs, err
		}
		all = append(all, c)
	}
	if e.peers.ort != nil {
		theirs, done, err := e.stepContenders(m)
		defer done()
		if err != nil {
			return nil, allocs, err
		}
		all = append(all, theirs...)
	}
	s, err = measure(ctx, e.effort(10*time.Second), all)
	return s, allocs, err
}

// stepping measures one stream that takes x repeatedly.
func (m *model) stepping(ctx context.Context, o *runtime.Model, name string, x *tensor.Tensor) (contender, error) {
	s, err := o.NewStream(1)
	if err != nil {
		return contender{}, fmt.Errorf("%s: %w", m.name, err)
	}
	in, out := map[string]tensor.Datum{m.inputName(): x}, map[string]tensor.Datum{}
	return contender{name: name, run: repeat(func() error { return s.Step(ctx, in, out) })}, nil
}

// steppingTogether measures n streams that step together.
func (m *model) steppingTogether(ctx context.Context, o *runtime.Model, name string, x *tensor.Tensor,
	n int) (contender, error) {
	steps := make([]runtime.StreamStep, n)
	for i := range steps {
		s, err := o.NewStream(1)
		if err != nil {
			return contender{}, fmt.Errorf("%s: %w", m.name, err)
		}
		steps[i] = runtime.StreamStep{Stream: s, In: map[string]tensor.Datum{m.inputName(): x},
			Out: map[string]tensor.Datum{}}
	}
	return contender{name: name, run: repeat(func() error { return o.StepMany(ctx, steps) })}, nil
}

// repeat returns a function that measures f.
func repeat(f func() error) func(reps int) (time.Duration, error) {
	return func(reps int) (time.Duration, error) {
		start := time.Now()
		for range reps {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return time.Since(start), nil
	}
}

// stepContenders prepares ONNX Runtime for one step of a causal model and the state before it, in the available forms.
// done releases them.
func (e *env) stepContenders(m *model) (all []contender, done func(), err error) {
	var held []*job
	done = func() {
		for _, j := range held {
			j.drop()
		}
	}
	in, err := stepInputs(m)
	if err != nil {
		return nil, done, err
	}
	whole := m.dir + "-step.onnx"
	if err := export(whole, m.graph, lower.Options{}); err != nil {
		return nil, done, err
	}
	next, err := m.oneStep()
	if err != nil {
		return nil, done, err
	}
	for _, c := range []struct{ name, file string }{{asExported, whole}, {forOneStep, next}} {
		j, err := e.stepORT(m, in, c.file)
		if err != nil {
			return nil, done, err
		}
		held = append(held, j)
		all = append(all, contender{name: c.name, group: ortGroup(1), run: j.run})
	}
	return all, done, nil
}

// The forms for a step of ONNX Runtime.
const (
	asExported = "ONNX Runtime, as exported"
	forOneStep = "ONNX Runtime, a graph for one step"
)
