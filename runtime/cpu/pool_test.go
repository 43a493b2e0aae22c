package cpu

import (
	"context"
	"errors"

	"github.com/essmc/essmc/runtime/cpu/internal/record"

	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/essmc/essmc/ir"
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

// TestWorkers checks that each work item runs once, also if workers sleep.
func TestWorkers(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(procs))
		for _, workers := range []int{1, 2, 3, 8} {
			before := goruntime.NumGoroutine()
			e := &executable{}
			e.ctx = context.Background()
			e.setup(e, workers, 0, 0, 0)
			r := newGen(1)
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
				for range 100 { // they are past their last instruction, but may still be counted
					if goruntime.NumGoroutine() <= before {
						break
					}
					time.Sleep(time.Millisecond)
				}
				if n := goruntime.NumGoroutine(); n > before {
					t.Fatalf("%d workers: %d goroutines before, %d after", workers, before, n)
				}
			}
		}
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
	e := &executable{}
	e.ctx = context.Background()
	e.setup(e, 3, 0, 0, 0)
	defer e.halt()
	var n *runtime.NodeError
	if err := e.Parallel(failing{5}, 1000); !errors.As(err, &n) || n.Node.Name != "bad" {
		t.Errorf("found %v", err)
	}
	if taken := e.next.Load(); taken > 20 {
		t.Errorf("%d items were taken", taken)
	}
}
