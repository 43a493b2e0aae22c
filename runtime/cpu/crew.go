package cpu

import (
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// helpers is the crew of the process. It is global because its goroutines share the processors, of which the process
// has one set.
var helpers = &crew{rest: time.Second}

// crew is goroutines that help executables, each one executable at a time. An executable hires them with the first
// task that has work items for them, and dismisses them at the end of its run. Until they are hired again they are
// idle and keep no reference to it. So calls start no goroutines, and models, sessions and executables that are
// dropped hold none.
//
// There are at most perProcessor of them for each processor, hired or idle. An executable that finds too few
// computes with fewer; answers do not depend on it. Idle ones end after a period without work, and as soon as no
// program with more than one thread is left.
type crew struct {
	rest time.Duration

	mu       sync.Mutex
	number   int         // of helpers, hired or idle
	idle     []*helper   // the one dismissed last is the last
	programs int         // those open that may hire
	timer    *time.Timer // of the next sweep
	sweeping bool        // there will be one
}

// perProcessor bounds the helpers for each processor. One would be enough to use it. With more, executables whose
// helpers sleep between tasks leave some to others.
const perProcessor = 4

// helper is a goroutine of a crew.
type helper struct {
	order  atomic.Int32
	wake   chan struct{}
	w      *worker // the worker that it acts as while it is hired; read only after an order to work
	rested bool    // idle since the sweep before
	_      [lines]byte
}

// Orders to a helper, and its states.
const (
	orderNone  = iota // spins until there is one
	orderRest         // shall sleep
	orderSleep        // sleeps until there is one
	orderWork         // shall work, and has not begun
	orderBusy         // works
	orderQuit
)

// join counts a program that may hire.
func (c *crew) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.programs++
}

// leave takes back join. Without programs, the helpers end.
func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.programs--; c.programs == 0 {
		c.end(len(c.idle))
	}
}

// hire appends to hired the helpers for workers, as far as there are some, and returns it.
func (c *crew) hire(hired []*helper, workers []*worker) []*helper {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range workers {
		var h *helper
		if n := len(c.idle); n > 0 {
			h = c.idle[n-1]
			c.idle = c.idle[:n-1]
		} else if c.number < perProcessor*goruntime.GOMAXPROCS(0) {
			h = &helper{wake: make(chan struct{}, 1)}
			c.number++
			go h.serve()
		} else {
			break
		}
		h.w = w
		hired = append(hired, h)
	}
	return hired
}

// dismiss makes helpers without work idle.
func (c *crew) dismiss(hired []*helper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range hired {
		h.w, h.rested = nil, false
		h.order.CompareAndSwap(orderNone, orderRest)
	}
	c.idle = append(c.idle, hired...)
	switch {
	case c.programs == 0:
		c.end(len(c.idle))
	case !c.sweeping:
		c.sweepLater()
	}
}

// sweep ends the helpers that have been idle since the sweep before. It comes again while there are others.
func (c *crew) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0 // the one dismissed first is the first
	for n < len(c.idle) && c.idle[n].rested {
		n++
	}
	c.end(n)
	for _, h := range c.idle {
		h.rested = true
	}
	c.sweeping = false
	if c.number > 0 {
		c.sweepLater()
	}
}

func (c *crew) sweepLater() {
	c.sweeping = true
	if c.timer == nil {
		c.timer = time.AfterFunc(c.rest, c.sweep)
	} else {
		c.timer.Reset(c.rest)
	}
}

// end ends the first n idle helpers. The caller holds the lock.
func (c *crew) end(n int) {
	for _, h := range c.idle[:n] {
		h.give(orderQuit)
	}
	c.idle = slices.Delete(c.idle, 0, n)
	c.number -= n
}

// give sets the order, and wakes the helper if it sleeps.
func (h *helper) give(order int32) {
	if h.order.Swap(order) == orderSleep {
		h.wake <- struct{}{}
	}
}

// revoke takes back the order to work, unless the helper has begun. One that was asleep is still about to wake.
func (h *helper) revoke() bool { return h.order.CompareAndSwap(orderWork, orderNone) }

// serve is the helper's goroutine.
func (h *helper) serve() {
	ordered := func() bool { return h.order.Load() != orderNone }
	for {
		spin(ordered)
		if h.order.CompareAndSwap(orderNone, orderSleep) || h.order.CompareAndSwap(orderRest, orderSleep) {
			<-h.wake
		}
		if h.order.CompareAndSwap(orderWork, orderBusy) {
			h.work()
		} else if h.order.Load() == orderQuit {
			return
		}
	}
}

// work works in the task under way. After it, the goroutine holds nothing of the executable.
//
//go:noinline
func (h *helper) work() {
	w := h.w
	w.work()
	p := &w.e.pool
	h.order.Store(orderNone)
	if p.busy.Add(-1) == waiterSleeps {
		p.done <- struct{}{}
	}
}
