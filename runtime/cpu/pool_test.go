package cpu

import (
	"context"
	"errors"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/runtime/cpu/internal/record"

	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// counted records which worker has run which work item. Some items take long, so that other workers fall asleep.
type counted struct {
	done []atomic.Int32
	slow int // every so many work items
}

func (c *counted) Do(_ *record.Workspace, k int) {
	if c.slow > 0 && k%c.slow == 0 {
		time.Sleep(300 * time.Microsecond)
	}
	c.done[k].Add(1)
}

// ownCrew gives the test a crew of its own, with the given rest.
func ownCrew(t *testing.T, rest time.Duration) {
	old := helpers
	helpers = &crew{rest: rest}
	t.Cleanup(func() { helpers = old })
}

// goroutinesEnd waits until there are no more goroutines than before. Those past their last instruction may still be
// counted.
func goroutinesEnd(t *testing.T, before int) {
	t.Helper()
	for range 1000 {
		if goruntime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d goroutines before, %d after", before, goruntime.NumGoroutine())
}

// TestWorkers checks that each work item runs once, also if workers sleep; with helpers that end with each run, and
// with some that stay.
func TestWorkers(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(procs))
		for _, workers := range []int{1, 2, 3, 8} {
			for _, stay := range []bool{false, true} {
				ownCrew(t, time.Minute)
				if stay {
					helpers.join()
				}
				before := goruntime.NumGoroutine()
				e := &executable{}
				e.ctx = context.Background()
				e.setup(e, workers, 0, 0, 0)
				r := NewGen(1)
				for run := range 3 {
					for i := range 100 {
						c := &counted{done: make([]atomic.Int32, r.IntN(20)), slow: r.IntN(8)}
						if i%10 > 0 {
							c.slow = 0
						}
						if i%25 == 0 { // helpers fall asleep
							time.Sleep(300 * time.Microsecond)
						}
						if err := e.Parallel(c, len(c.done)); err != nil {
							t.Fatal(err)
						}
						for k := range c.done {
							if n := c.done[k].Load(); n != 1 {
								t.Fatalf("%d workers, run %d, task %d: item %d of %d was done %d times", workers, run, i, k,
									len(c.done), n)
							}
						}
					}
					e.halt()
					if !stay {
						goroutinesEnd(t, before)
					} else if n := len(helpers.idle); n != min(workers-1, 4*procs) || n != helpers.number {
						t.Fatalf("%d workers on %d processors: %d helpers are idle, of %d", workers, procs, n, helpers.number)
					}
				}
				if stay {
					helpers.leave()
					goroutinesEnd(t, before)
				}
			}
		}
	}
}

// TestManySessions checks that many runs at once have a bounded number of helpers, which end when they have been idle.
func TestManySessions(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(2))
	ownCrew(t, 50*time.Millisecond)
	helpers.join()
	before := goruntime.NumGoroutine()
	const sessions, threads = 200, 16
	limit := perProcessor * 2
	var most atomic.Int32
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			e := &executable{}
			e.ctx = context.Background()
			e.setup(e, threads, 0, 0, 0)
			for j := range 20 {
				c := &counted{done: make([]atomic.Int32, 1+(i+j)%40)}
				if err := e.Parallel(c, len(c.done)); err != nil {
					t.Error(err)
				}
				for k := range c.done {
					if n := c.done[k].Load(); n != 1 {
						t.Errorf("item %d was done %d times", k, n)
					}
				}
				if j%3 == 0 {
					e.halt()
				}
				helpers.mu.Lock()
				most.Store(max(most.Load(), int32(helpers.number)))
				helpers.mu.Unlock()
			}
			e.halt()
		})
	}
	wg.Wait()
	if n := int(most.Load()); n > limit {
		t.Errorf("%d helpers, expected at most %d", n, limit)
	}
	goroutinesEnd(t, before) // by their rest: a program is open
	helpers.mu.Lock()
	defer helpers.mu.Unlock()
	if helpers.number != 0 || len(helpers.idle) != 0 {
		t.Errorf("%d helpers are left", helpers.number)
	}
	helpers.programs--
}

// TestCrewOfProgram checks that a program that is closed or dropped leaves the crew, and that idle helpers hold nothing
// of executables.
func TestCrewOfProgram(t *testing.T) {
	for _, closed := range []bool{true, false} {
		ownCrew(t, time.Minute)
		before := goruntime.NumGoroutine()
		dropped := make(chan bool)
		func() {
			p, err := compile(layered(t, plain, 1, geluOp, true), runtime.Config{Threads: 3})
			if err != nil {
				t.Fatal(err)
			}
			x, err := p.Bind(runtime.Binding{Dims: map[string]int64{"B": 2, "L": 500},
				Inputs: []ir.Type{ir.Tensor(tensor.Float32, 2, 500, 12)}})
			if err != nil {
				t.Fatal(err)
			}
			in := []tensor.Datum{NewGen(1).Floats(1, 2, 500, 12)}
			if err := x.Run(context.Background(), in, make([]tensor.Datum, 1)); err != nil {
				t.Fatal(err)
			}
			if helpers.number == 0 || len(helpers.idle) != helpers.number {
				t.Fatalf("%d of %d helpers are idle after a run", len(helpers.idle), helpers.number)
			}
			goruntime.AddCleanup(x.(*executable), func(chan bool) { close(dropped) }, dropped)
			if closed {
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				goroutinesEnd(t, before)
			}
		}()
		for done := false; !done; {
			goruntime.GC()
			select {
			case <-dropped:
				done = true
			case <-time.After(time.Millisecond):
			}
		}
		goroutinesEnd(t, before)
	}
}

// failing panics in one work item. Later items wait for the panic.
type failing struct{ at int }

func (f failing) Do(w *record.Workspace, k int) {
	w.Node = &ir.Node{Name: "bad"}
	if k == f.at {
		panic("wrong")
	}
	for k > f.at && !w.Stopped() {
		goruntime.Gosched()
	}
}

// TestWorkersFail checks that a panic ends the task at once, and is its error.
func TestWorkersFail(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		e := &executable{}
		e.ctx = context.Background()
		e.setup(e, 3, 0, 0, 0)
		const items = 1000
		var err error
		if ordered {
			err = e.tiles(failingPass{failing{5}}, items)
		} else {
			err = e.Parallel(failing{5}, items)
		}
		var n *runtime.NodeError
		if !errors.As(err, &n) || n.Node.Name != "bad" {
			t.Errorf("found %v", err)
		}
		taken := int(e.next.Load())
		if !ordered {
			taken = items
			for i := range e.shares {
				for _, ok := e.shares[i].take(); ok; _, ok = e.shares[i].take() {
					taken--
				}
			}
		}
		if taken > 20 {
			t.Errorf("%d items were taken", taken)
		}
		e.halt()
	}
}

// failingPass is failing as a pass.
type failingPass struct{ failing }

func (f failingPass) Do(w *worker, k int) { f.failing.Do(&w.Workspace, k) }

// TestShares checks that every item is in one share, that a share ends with the last of its items, and that half of them
// can be taken away.
func TestShares(t *testing.T) {
	for items := range 40 {
		for workers := 1; workers < 6; workers++ {
			p := &pool{items: items, shares: make([]share, workers)}
			p.divide(workers)
			done := make([]int, items)
			for i := range p.shares {
				other := &p.shares[(i+1)%workers]
				if from, to, ok := other.steal(); ok {
					for k := from; k < to; k++ {
						done[k]++
					}
				}
				for k, ok := p.shares[i].take(); ok; k, ok = p.shares[i].take() {
					done[k]++
				}
			}
			for i := range p.shares {
				if _, _, ok := p.shares[i].steal(); ok {
					t.Errorf("%d items, %d workers: share %d has some left", items, workers, i)
				}
			}
			for k, n := range done {
				if n != 1 {
					t.Errorf("%d items, %d workers: item %d was taken %d times", items, workers, k, n)
				}
			}
		}
	}
}
