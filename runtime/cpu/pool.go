package cpu

import (
	"context"

	"github.com/essmc/essmc/runtime/cpu/internal/record"

	goruntime "runtime"
	"sync"
	"sync/atomic"

	"github.com/essmc/essmc/runtime"
)

// pool is the workers of an executable. The first of them is the goroutine that calls Run; the others, its helpers, start with
// the first task that has work items for them and end with the run. Between tasks a helper watches for the next one for a while
// before it sleeps, and so does the first worker for the helpers' last work items: tasks follow each other within microseconds,
// and to be woken takes tens of them.
type pool struct {
	workers []*worker
	ctx     context.Context
	task    record.Task // under way: one of these
	pass    tilePass    //
	items   int
	next    atomic.Int64 // the work item that is handed out next
	stop    atomic.Bool
	busy    atomic.Int32 // helpers at work; with waiterSleeps added, the last one wakes the first worker
	done    chan struct{}
	running bool // helpers are up
	wg      sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// worker is one goroutine's memory.
type worker struct {
	record.Workspace
	e     *executable
	state []float64
	args  [][]float32
	in    record.TileInput
	seq   record.Sequence
	local int // the row of scratch that it works on, of a group of samples
	order atomic.Int32
	wake  chan struct{}
}

// What a helper is to do, or does.
const (
	orderNone  = iota // watches for an order
	orderSleep        // sleeps until it is woken
	orderWork
	orderQuit
)

const waiterSleeps = 1 << 30

// tilePass is a task of regions, which needs more of a worker than kernels do.
type tilePass interface{ Do(w *worker, k int) }

// setup makes n workers with so much memory each.
func (p *pool) setup(e *executable, n, scratch, states, args int) {
	p.done = make(chan struct{}, 1)
	for range n {
		w := &worker{Workspace: record.Workspace{Scratch: floats(scratch)}, e: e, state: make([]float64, states), args: make([][]float32, args), wake: make(chan struct{}, 1)}
		w.Halted = w.stopped
		p.workers = append(p.workers, w)
	}
}

// run hands out the work items of a task, or of a pass, to the workers, and waits.
func (p *pool) run(t record.Task, pass tilePass, items int) error {
	if items == 0 {
		return nil
	}
	p.task, p.pass, p.items = t, pass, items
	p.next.Store(0)
	helpers := min(len(p.workers), items) - 1
	if helpers > 0 {
		if !p.running {
			p.running = true
			p.wg.Add(len(p.workers) - 1)
			for _, w := range p.workers[1:] {
				w.order.Store(orderNone)
				go w.serve()
			}
		}
		p.busy.Store(int32(helpers))
		for _, w := range p.workers[1 : helpers+1] {
			w.give(orderWork)
		}
	}
	p.workers[0].work()
	if helpers > 0 {
		p.wait()
	}
	return p.err
}

// Watching goes on for about 50 µs: some looks at once, then others between which goroutines run that have waited longer.
const (
	looksAtOnce = 2000
	looksInTurn = 200
)

// watch looks until a condition holds; false when it does not in time.
func watch(holds func() bool) bool {
	for range looksAtOnce {
		if holds() {
			return true
		}
	}
	for range looksInTurn {
		if holds() {
			return true
		}
		goruntime.Gosched()
	}
	return false
}

// wait returns when no helper works any more.
func (p *pool) wait() {
	if watch(func() bool { return p.busy.Load() == 0 }) {
		return
	}
	if p.busy.Add(waiterSleeps) != waiterSleeps {
		<-p.done
	}
	p.busy.Store(0)
}

// give tells a helper what to do.
func (w *worker) give(order int32) {
	if w.order.Swap(order) == orderSleep {
		w.wake <- struct{}{}
	}
}

// serve is a helper's life during one Run.
func (w *worker) serve() {
	p := &w.e.pool
	defer p.wg.Done()
	ordered := func() bool { return w.order.Load() != orderNone }
	for {
		if !watch(ordered) && w.order.CompareAndSwap(orderNone, orderSleep) {
			<-w.wake
		}
		if w.order.Load() == orderQuit {
			return
		}
		w.work()
		w.order.Store(orderNone)
		if p.busy.Add(-1) == waiterSleeps {
			p.done <- struct{}{}
		}
	}
}

// halt ends the helpers.
func (p *pool) halt() {
	if !p.running {
		return
	}
	for _, w := range p.workers[1:] {
		w.give(orderQuit)
	}
	p.wg.Wait()
	p.running = false
}

// work takes work items until there are no more.
func (w *worker) work() {
	p := &w.e.pool
	defer func() {
		if v := recover(); v != nil {
			p.fail(runtime.Recovered(w.Node, v))
		}
	}()
	for !w.stopped() {
		k := int(p.next.Add(1)) - 1
		if k >= p.items {
			return
		}
		if p.pass != nil {
			p.pass.Do(w, k)
		} else {
			p.task.Do(&w.Workspace, k)
		}
	}
}

// stopped reports whether the run has failed or was cancelled.
func (w *worker) stopped() bool {
	p := &w.e.pool
	if err := p.ctx.Err(); err != nil {
		p.fail(err)
	}
	return p.stop.Load()
}

// fail stops the run; the first error counts.
func (p *pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.stop.Store(true)
}
