package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	essmc "github.com/essmc/essmc/runtime"
)

func runStep(ctx context.Context, e *env, r *result) error {
	m, err := newModel(e, "sc35", [2]string{"layer.bidirectional", "false"})
	if err != nil {
		return err
	}
	in, err := stepInputs(m)
	if err != nil {
		return err
	}
	var all []contender
	var allocs float64
	for _, threads := range e.threadCounts() {
		o, err := newOurs(ctx, m.graph, in, essmc.Options{Threads: threads})
		if err != nil {
			return err
		}
		defer o.close()
		c := o.contender(ctx, "essmc "+threadsName(threads))
		all = append(all, c)
		n, err := allocations(c)
		if err != nil {
			return err
		}
		allocs = max(allocs, n)
	}
	if e.peers.blas != nil {
		j, err := e.peers.blas.load(1, append([]string{"product"}, m.floor(1)...)...)
		if err != nil {
			return err
		}
		defer j.drop()
		all = append(all, contender{name: "floor", run: j.run})
	}
	if e.peers.ort != nil {
		theirs, done, err := e.stepContenders(m)
		defer done()
		if err != nil {
			return err
		}
		for _, c := range theirs {
			c.group = "" // both are shown
			all = append(all, c)
		}
	}
	s, err := measure(ctx, e.effort(10*time.Second), all)
	if err != nil {
		return err
	}
	several := "essmc " + threadsName(e.threads)
	best := s.fastest("essmc 1 thread", several)
	t := table{Header: []string{"what", "one step", "against essmc"},
		Note: fmt.Sprintf(
			"%s allocations per step. The floor's products have one row: OpenBLAS multiplies a matrix by a vector. "+
				"*as exported*: in chunks of 64 steps, whatever is given; *a graph for one step*: the recurrences "+
				"written out.", number(allocs))}
	for _, name := range []string{"essmc 1 thread", several, "floor", asExported, forOneStep} {
		if s.of(name) != nil {
			t.add(name, seconds(s.of(name)), s.ratio(name, best).String())
		}
	}
	r.Tables = append(r.Tables, t)
	found := median(s.of(best))
	r.Verdicts = append(r.Verdicts, judge("a single step of sc35 made causal, 6 layers", "30 µs, 0 allocations",
		fmt.Sprintf("%s, %s allocations", seconds(s.of(best)), number(allocs)), found < 30e-6 && allocs == 0))
	return nil
}

// stepInputs returns one step and a state.
func stepInputs(m *model) (map[string]tensor.Datum, error) {
	x, _, err := m.input(1, 1)
	if err != nil {
		return nil, err
	}
	in := map[string]tensor.Datum{m.inputName(): x}
	for _, v := range m.graph.Inputs {
		if v.Name != models.StateIn {
			continue
		}
		o, ok := v.Type.(*ir.OptionalType)
		if !ok {
			return nil, fmt.Errorf("%s: expected the input %s to be optional, found %v", m.name, v.Name, v.Type)
		}
		width, err := o.Elem.(*ir.TensorType).Shape[1].Eval(nil)
		if err != nil {
			return nil, err
		}
		in[v.Name] = random(noise(3), 1, int(width))
	}
	if len(in) != 2 {
		return nil, fmt.Errorf("%s: the model has no input %s", m.name, models.StateIn)
	}
	return in, nil
}

// allocations returns the number of allocations of one run: the least of several measurements, since the garbage collector
// empties pools of working memory now and then.
func allocations(c contender) (float64, error) {
	const reps, tries = 100, 5
	if _, err := c.run(reps); err != nil {
		return 0, err
	}
	least := uint64(math.MaxUint64)
	for range tries {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := c.run(reps); err != nil {
			return 0, err
		}
		runtime.ReadMemStats(&after)
		least = min(least, (after.Mallocs-before.Mallocs)/reps)
	}
	return float64(least), nil
}

// stepORT prepares a file for one step and the state before it.
func (e *env) stepORT(m *model, in map[string]tensor.Datum, file string) (*job, error) {
	var words []string
	for i, v := range m.graph.Inputs {
		t, ok := in[v.Name].(*tensor.Tensor)
		if !ok { // lengths, required in the export
			t = tensor.FromSlice([]int64{1}, 1)
		}
		npy := fmt.Sprintf("%s-step-%d.npy", m.dir, i)
		if err := arrays.Write(npy, t); err != nil {
			return nil, err
		}
		words = append(words, v.Name+"="+npy)
	}
	return e.peers.onnx(1, file, words...)
}
