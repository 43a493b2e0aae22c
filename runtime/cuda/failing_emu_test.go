package cuda_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// breaking lets the calls of a driver fail from a number on: one of them, or all that follow.
type breaking struct {
	from  int // 0: none
	all   bool
	code  driver.Code
	calls []string
}

func (b *breaking) fail(call string, n int) driver.Code {
	b.calls = append(b.calls, call)
	if n == b.from || b.all && b.from > 0 && n > b.from {
		return b.code
	}
	return driver.Success
}

// givesBack reports whether a call gives something back. Where it fails on the emulator, that is not done.
func givesBack(call string) bool {
	for _, part := range []string{"Free", "Destroy", "Unload", "Release"} {
		if strings.Contains(call, part) {
			return true
		}
	}
	return false
}

// inTime fails the process, with all goroutines' places, where f takes minutes: it hangs.
func inTime(t *testing.T, f func()) {
	t.Helper()
	name := t.Name()
	timer := time.AfterFunc(5*time.Minute, func() {
		stacks := make([]byte, 1<<20)
		panic(name + " hangs:\n" + string(stacks[:goruntime.Stack(stacks, true)]))
	})
	defer timer.Stop()
	f()
}

// situation is something that a program does with the backend. It returns the errors that it meets; a wrong answer fails t.
type situation struct {
	name string
	run  func(t *testing.T, d driver.Driver) []error
	// silent names calls whose failure nobody need be told of, since another way is found.
	silent func(call string) bool
}

// TestFailingEmulated lets each call of an emulated driver fail in turn, first only that call, then also all that
// follow. Each answer is right or an error, nothing hangs, no call violates the rules, and everything that can be
// freed is freed.
func TestFailingEmulated(t *testing.T) {
	hurry(t)
	for _, s := range []situation{values(t), loops(t), streams(t), closing(t), replacing(t)} {
		for _, all := range []bool{false, true} {
			for i, code := range []driver.Code{driver.NotSupported, driver.OutOfMemory, driver.LaunchFailed} {
				if !longMode() && (code == driver.OutOfMemory) != all {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v/all=%v", s.name, code, all), func(t *testing.T) { inTime(t, func() { s.fails(t, code, all, i) }) })
			}
		}
	}
}

// fails lets each call fail in turn. Outside the long mode every third call does, another one for each of three codes.
func (s *situation) fails(t *testing.T, code driver.Code, all bool, which int) {
	calls := 0
	for at := 0; at <= calls; at++ {
		if at > 0 && at%3 != which && !longMode() {
			continue
		}
		b := &breaking{from: at, all: all, code: code}
		d := emu.New(emu.Options{Fail: b.fail})
		errs := s.run(t, d)
		found := d.Close()
		if at == 0 {
			calls = len(b.calls)
			if errs != nil || found != nil {
				t.Fatalf("without a failure: %v, %v", errs, found)
			}
			continue
		}
		if len(b.calls) < at { // the schedule of several goroutines made fewer calls
			continue
		}
		call := b.calls[at-1]
		if errs == nil && call != "cuMemAllocFromPoolAsync" && (s.silent == nil || !s.silent(call)) {
			t.Errorf("call %d (%s) fails, and nobody is told", at, call)
		}
		for _, err := range errs {
			if s := err.Error(); !strings.Contains(s, "cuda") && !strings.Contains(s, "memory") {
				t.Errorf("call %d (%s): %v", at, call, err)
			}
		}
		found = slices.DeleteFunc(found, func(f emu.Finding) bool {
			left := strings.Contains(f.What, "not freed") || strings.Contains(f.What, "given back") ||
				strings.Contains(f.What, "not released") || strings.Contains(f.What, "were left with")
			return left && (all || givesBack(call))
		})
		for _, f := range found {
			t.Errorf("call %d (%s) fails: %v", at, call, f)
		}
		if t.Failed() && at > 40 {
			t.Fatal("and so on")
		}
	}
}

// run makes a model and calls f with it.
func (s *situation) model(d driver.Driver, g *ir.Graph, o runtime.Options, f func(m *runtime.Model) []error) []error {
	b, err := cuda.New(d, cuda.Options{})
	if err != nil {
		return []error{err}
	}
	o.Backend = b
	m, err := runtime.New(g, o)
	if err != nil {
		return []error{err}
	}
	errs := f(m)
	if err := m.Close(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// values runs with executables for the values of inputs: more of them than are kept, in two sessions.
func values(t *testing.T) situation {
	g := reshaping(t)
	var in, want []data
	for _, k := range []int64{0, 1, 2, 1, 3, 4, 5, 6, 0, 0} {
		in = append(in, data{"x": numbers(12, float32(k)), "shape": tensor.FromSlice([]int64{2, 6}, 2), "k": tensor.Scalar(k)})
		want = append(want, answers(t, g, in[len(in)-1]))
	}
	in = append(in, data{"x": numbers(12, 1), "shape": tensor.FromSlice([]int64{3, 4}, 2), "k": tensor.Scalar(int64(1))})
	want = append(want, answers(t, g, in[len(in)-1]))
	s := situation{name: "values"}
	s.run = func(t *testing.T, d driver.Driver) []error {
		return s.model(d, g, runtime.Options{}, func(m *runtime.Model) (errs []error) {
			for k := range 2 {
				session := m.NewSession()
				for i := k * 9; i < len(in); i++ {
					got, err := session.Run(context.Background(), in[i])
					if err != nil {
						errs = append(errs, err)
					} else if !equal(got, want[i]) {
						t.Errorf("run %d: found %v, expected %v", i, got, want[i])
					}
				}
			}
			return errs
		})
	}
	return s
}

// loops runs loops that carry values on the device.
func loops(t *testing.T) situation {
	b := ir.NewBuilder("loops", ops.Default, map[string]int{"": ops.Opsets()[""]})
	vector := ir.Tensor(tensor.Float32, "N")
	x, m := b.Input("x", vector), b.Input("m", ir.Tensor(tensor.Int64))
	a := b.Op("", "Add", []*ir.Value{x, x})
	body := b.Sub("body")
	body.Input("t", ir.Tensor(tensor.Int64))
	more, h, g := body.Input("more", ir.Tensor(tensor.Bool)), body.Input("h", vector), body.Input("g", vector)
	k := body.Op("", "Add", []*ir.Value{h, a})
	j := body.Op("", "Sub", []*ir.Value{k, g})
	body.Output("again", body.Op("", "Identity", []*ir.Value{more}))
	body.Output("j", j)
	body.Output("k", k)
	for i, v := range b.Ops("", "Loop", 2, []*ir.Value{m, nil, x, a}, ir.A("body", body.Graph())) {
		b.Output(fmt.Sprint("y", i), v)
	}
	graph, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var in, want []data
	for i, trips := range []int64{3, 0, 2, 4} {
		in = append(in, data{"x": numbers(5+i/3, float32(i)), "m": tensor.Scalar(trips)})
		want = append(want, answers(t, graph, in[i]))
	}
	s := situation{name: "loops"}
	s.run = func(t *testing.T, d driver.Driver) []error {
		return s.model(d, graph, runtime.Options{}, func(m *runtime.Model) (errs []error) {
			session := m.NewSession()
			for i := range in {
				got, err := session.Run(context.Background(), in[i])
				if err != nil {
					errs = append(errs, err)
				} else if !equal(got, want[i]) {
					t.Errorf("run %d: found %v, expected %v", i, got, want[i])
				}
			}
			return errs
		})
	}
	return s
}

// follow is the graph of a model that carries the states s and r: y = 2x + s + r, and s = 3x + s, r = r + 3 from then on.
func follow(t *testing.T) *ir.Graph {
	t.Helper()
	b := ir.NewBuilder("follow", ops.Default, map[string]int{"": ops.Opsets()[""]})
	b.Graph().Meta = map[string]string{ir.MetaBatch: "N"}
	vector := ir.Tensor(tensor.Float32, "N")
	x, s, r := b.Input("x", vector), b.Input("s", vector), b.Input("r", vector)
	add := func(x, y *ir.Value) *ir.Value { return b.Op("", "Add", []*ir.Value{x, y}) }
	y := add(add(x, x), s)
	b.Output("y", add(y, r))
	b.Output("next", add(y, x))
	b.Output("then", add(r, b.Const("", tensor.FromSlice([]float32{3}, 1))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// streams steps two streams, separately and together, with a snapshot in between. A step that fails leaves the
// states unchanged, so that the same step gives the right answer after it.
func streams(t *testing.T) situation {
	g := follow(t)
	s := situation{name: "streams"}
	together := false
	s.silent = func(string) bool { return together } // of steps together, each is tried separately
	s.run = func(t *testing.T, d driver.Driver) []error {
		return s.model(d, g, runtime.Options{Carry: map[string]string{"s": "next", "r": "then"}}, func(m *runtime.Model) (errs []error) {
			ctx := context.Background()
			var all [2]*runtime.Stream
			var state [2][2]float32
			for k := range all {
				var err error
				if all[k], err = m.NewStream(1); err != nil {
					return append(errs, err)
				}
			}
			check := func(k int, x float32, out data) {
				want := 2*x + state[k][0] + state[k][1]
				if y, ok := out["y"].(*tensor.Tensor); !ok || tensor.Data[float32](y)[0] != want {
					t.Errorf("stream %d, x = %v: found %s, expected %v", k, x, out["y"], want)
				}
				state[k] = [2]float32{3*x + state[k][0], state[k][1] + 3}
			}
			together = false
			for round := range 7 {
				x := float32(round)
				if round < 3 {
					for k := range all {
						for range 2 { // again, if it fails
							out := data{}
							err := all[k].Step(ctx, data{"x": floats(x)}, out)
							if err == nil {
								check(k, x, out)
								break
							}
							errs = append(errs, err)
						}
					}
					continue
				}
				if round == 4 {
					if b, err := all[0].Snapshot(); err != nil {
						errs = append(errs, err)
					} else if err := all[1].Restore(b); err != nil {
						// Perhaps half of it was written; only a snapshot shows the result.
						return append(errs, err)
					} else {
						state[1] = state[0]
					}
				}
				together = true
				steps := make([]runtime.StreamStep, len(all))
				for k := range all {
					steps[k] = runtime.StreamStep{Stream: all[k], In: data{"x": floats(x)}, Out: data{}}
				}
				if err := m.StepMany(ctx, steps); err != nil {
					errs = append(errs, err)
				}
				for k := range all {
					if steps[k].Err == nil {
						check(k, x, steps[k].Out)
					}
				}
			}
			return errs
		})
	}
	return s
}

// closing closes a model while sessions and a stream run.
func closing(t *testing.T) situation {
	g := reshaping(t)
	in := data{"x": numbers(12, 2), "shape": tensor.FromSlice([]int64{2, 6}, 2), "k": tensor.Scalar(int64(3))}
	want := answers(t, g, in)
	s := situation{name: "closing", silent: func(string) bool { return true }} // by chance, the call is of a run that is refused
	s.run = func(t *testing.T, d driver.Driver) []error {
		return s.model(d, g, runtime.Options{}, func(m *runtime.Model) (errs []error) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			add := func(err error) {
				if err != nil && !errors.Is(err, runtime.ErrClosed) {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			}
			for k := range 2 {
				wg.Go(func() {
					session := m.NewSession()
					for i := range 4 {
						got, err := session.Run(context.Background(), in)
						if add(err); err == nil && !equal(got, want) {
							t.Errorf("found %v, expected %v", got, want)
						}
						if i == 1 && k == 0 {
							add(m.Close())
						}
					}
					add(session.Close())
				})
			}
			wg.Wait()
			return errs
		})
	}
	return s
}

// replacing replaces parameters between runs. After an error they have the content before it.
func replacing(t *testing.T) situation {
	b := ir.NewBuilder("replacing", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "N", 2))
	w, shift := b.Parameter("w", tensor.FromSlice([]float32{1, 1}, 2)), b.Parameter("shift", tensor.FromSlice([]float64{0, 0}, 2)) // in place, and rounded
	b.Output("y", b.Op("essm", "Affine", []*ir.Value{b.Op("", "Mul", []*ir.Value{x, w}), shift, shift}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := situation{name: "replacing", silent: givesBack} // the memory of a version that nothing uses any more
	s.run = func(t *testing.T, d driver.Driver) []error {
		return s.model(d, g, runtime.Options{}, func(m *runtime.Model) (errs []error) {
			ctx, session := context.Background(), m.NewSession()
			has := float32(0)
			for round := range 5 {
				k := float32(round + 1)
				err := m.Set().Replace(ctx, data{"w": floats(k, k), "shift": tensor.FromSlice([]float64{float64(k), float64(k)}, 2)})
				if err != nil {
					errs = append(errs, err)
				} else {
					has = k
				}
				got, err := session.Run(ctx, data{"x": tensor.FromSlice([]float32{2, 3}, 1, 2)})
				if err != nil {
					errs = append(errs, err)
					continue
				}
				want := []float32{2*max(has, 1)*has + has, 3*max(has, 1)*has + has}
				if y := tensor.Data[float32](got["y"].(*tensor.Tensor)); !slices.Equal(y, want) {
					t.Errorf("round %d: found %v, expected %v", round, y, want)
				}
			}
			return errs
		})
	}
	return s
}
