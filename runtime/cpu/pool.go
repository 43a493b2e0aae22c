package cpu

import (
	"context"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/record"

	goruntime "runtime"
	"sync"
	"sync/atomic"

	"github.com/essmc/essmc/runtime"
)

// pool is the workers of an executable. The first worker is the goroutine that calls Run. The others are helpers of
// the process's crew, as far as it has some. Between tasks, a helper spins for a while before it sleeps, and so does
// the first worker while helpers finish their last work items. Tasks follow each other within microseconds, and
// waking a goroutine takes tens of them. No worker waits for a helper that has not started when there are no more
// work items.
//
// Processors take hundreds of nanoseconds to hand each other a cache line that one of them writes. So the items of a
// task are divided among the workers beforehand, and a worker takes over others' only when it has none left. Its own
// are neighbours, and mostly neighbours of the items that it computed in the previous task, so the data that it
// reads and writes are in its caches.
type pool struct {
	workers []*worker
	ctx     context.Context
	task    record.Task // under way, unless pass is
	pass    tilePass    // under way, unless nil
	items   int
	ordered bool    // items are handed out in order, by next; otherwise by shares
	shares  []share // per worker
	done    chan struct{}
	hired   []*helper // of the crew, for the workers after the first, until the end of the run
	stop    atomic.Bool

	_    [lines]byte
	next atomic.Int64 // the next work item
	_    [lines]byte
	busy atomic.Int32 // number of helpers with an order to work, plus waiterSleeps if the last one must wake the first worker
	_    [lines]byte

	mu  sync.Mutex
	err error
}

// lines is the padding in bytes that keeps fields from sharing cache lines with their neighbours; processors load
// lines in pairs.
const lines = 128

// share is the range of work items that a worker has left: the first in the upper half, the end in the lower one.
type share struct {
	left atomic.Uint64
	_    [lines - 8]byte
}

func (s *share) set(from, to uint32) { s.left.Store(uint64(from)<<32 | uint64(to)) }

// take removes the first item.
func (s *share) take() (k int, ok bool) {
	for {
		v := s.left.Load()
		if from, to := uint32(v>>32), uint32(v); from >= to {
			return 0, false
		}
		if s.left.CompareAndSwap(v, v+1<<32) {
			return int(v >> 32), true
		}
	}
}

// steal removes the second half, and the only item there is.
func (s *share) steal() (from, to uint32, ok bool) {
	for {
		v := s.left.Load()
		from, to = uint32(v>>32), uint32(v)
		if from >= to {
			return 0, 0, false
		}
		half := from + (to-from)/2
		if s.left.CompareAndSwap(v, v>>32<<32|uint64(half)) {
			return half, to, true
		}
	}
}

// worker is a goroutine's memory.
type worker struct {
	record.Workspace
	id    int // in the pool
	e     *executable
	state []float64
	args  [][]float32
	in    record.TileInput
	seq   record.Sequence
	local int // the first row in scratch of the sample under way, where several are computed together
	steps ir.EvalCtx
	_     [lines]byte
}

const waiterSleeps = 1 << 30

// tilePass is a task of a region, which uses more of a worker than kernels do.
type tilePass interface{ Do(w *worker, k int) }

// setup makes n workers with the given memory each.
func (p *pool) setup(e *executable, n, scratch, states, args int) {
	p.done = make(chan struct{}, 1)
	for i := range n {
		w := &worker{Workspace: record.Workspace{Scratch: floats(e.d, scratch)}, id: i, e: e,
			state: make([]float64, states), args: make([][]float32, args)}
		w.steps.Ctx = runContext{p: p}
		w.Halted, w.Steps = w.stopped, &w.steps
		p.workers = append(p.workers, w)
	}
	p.hired, p.shares = make([]*helper, 0, max(0, n-1)), make([]share, n)
}

// run runs all work items of a task, or of a pass, on the workers. It returns the first error of the run.
func (p *pool) run(t record.Task, pass tilePass, items int) error {
	if items == 0 {
		return nil
	}
	p.task, p.pass, p.items = t, pass, items
	wanted := min(len(p.workers), items) - 1
	p.ordered = wanted == 0 || pass != nil || items > math.MaxInt32
	if p.ordered {
		p.next.Store(0)
	} else {
		p.divide(wanted + 1)
	}
	if wanted == 0 {
		p.workers[0].work()
		return p.err
	}
	if len(p.hired) < wanted {
		p.hired = helpers.hire(p.hired, p.workers[len(p.hired)+1:wanted+1])
	}
	working := p.hired[:min(wanted, len(p.hired))]
	p.busy.Store(int32(len(working)))
	for _, h := range working {
		h.give(orderWork)
	}
	p.workers[0].work()
	for _, h := range working {
		if h.revoke() {
			p.busy.Add(-1)
		}
	}
	p.wait()
	return p.err
}

// divide distributes the items almost evenly over the first n workers.
func (p *pool) divide(n int) {
	for i := range p.shares {
		if i < n {
			p.shares[i].set(uint32(i*p.items/n), uint32((i+1)*p.items/n))
		} else {
			p.shares[i].set(0, 0)
		}
	}
}

// Spinning takes about 50 µs: first a tight loop, then a loop that yields to other goroutines.
const (
	tightSpins    = 2000
	yieldingSpins = 200
)

// spin waits for a condition. It returns false if the condition does not hold in time.
func spin(holds func() bool) bool {
	for range tightSpins {
		if holds() {
			return true
		}
	}
	for range yieldingSpins {
		if holds() {
			return true
		}
		goruntime.Gosched()
	}
	return false
}

// wait waits until no helper is at work.
func (p *pool) wait() {
	if spin(func() bool { return p.busy.Load() == 0 }) {
		return
	}
	if p.busy.Add(waiterSleeps) != waiterSleeps {
		<-p.done
	}
	p.busy.Store(0)
}

// halt dismisses the helpers.
func (p *pool) halt() {
	if len(p.hired) > 0 {
		helpers.dismiss(p.hired)
		clear(p.hired)
		p.hired = p.hired[:0]
	}
}

// work runs work items until there are no more, or the run has failed.
func (w *worker) work() {
	p := &w.e.pool
	defer func() {
		if v := recover(); v != nil {
			p.fail(runtime.Recovered(w.Node, v))
		}
	}()
	w.Begin()
	if p.ordered {
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
		return
	}
	for own := &p.shares[w.id]; ; {
		for !w.stopped() {
			k, ok := own.take()
			if !ok {
				break
			}
			p.task.Do(&w.Workspace, k)
		}
		if w.stopped() || !w.steal() {
			return
		}
	}
}

// steal takes half of the items that the next worker with some has left. It returns false if there are none.
func (w *worker) steal() bool {
	p := &w.e.pool
	for i := 1; i < len(p.shares); i++ {
		from, to, ok := p.shares[(w.id+i)%len(p.shares)].steal()
		if ok {
			p.shares[w.id].set(from, to)
			return true
		}
	}
	return false
}

// runContext is a context that is done when the run has failed or was cancelled.
type runContext struct {
	context.Context
	p *pool
}

// Err is the reason.
func (c runContext) Err() error {
	if err := c.p.ctx.Err(); err != nil {
		return err
	}
	if !c.p.stop.Load() {
		return nil
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.p.err
}

// stopped reports whether the run has failed or was cancelled.
func (w *worker) stopped() bool {
	p := &w.e.pool
	if err := p.ctx.Err(); err != nil {
		p.fail(err)
	}
	return p.stop.Load()
}

// fail stops the run. The first error is kept.
func (p *pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.stop.Store(true)
}
