// Package queue runs the requests of many callers on one model: together where that changes no answer, one by one
// otherwise.
//
//	q, err := queue.New(model, queue.Options{})
//	...
//	res, err := q.Run(ctx, inputs, 0)
//
// Requests whose inputs have equal shapes are joined to one batch, and never padded. A model's requests are joined only
// if the facts along its batch dimension prove that samples are independent (ops.BatchFacts); Joined returns the reason
// otherwise. The first batch of each shape and size is also computed one by one. If a bit differs, because a layer took
// another form, the queue joins no more requests of the model. So the composition of a batch never changes an answer.
// Steps of streams that wait at the same time are one call of runtime.Model.StepMany.
//
// The package imports ir, ir/tensor, ops and runtime.
package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

var (
	// ErrFull is the error for a request when Options.Limit requests wait.
	ErrFull = errors.New("too many requests wait")
	// ErrClosed is the error for requests after Close.
	ErrClosed = errors.New("queue is closed")
)

// Options are the settings of a queue. The zero value has the defaults.
type Options struct {
	// Workers is the number of batches that run at once, each with a session of its own; 0: 1.
	Workers int
	// Max is the number of requests that one batch may have; 0: 32. With 1, requests run one by one. Up to 64 streams
	// step together in any case.
	Max int
	// Preferred are sizes at which a batch does not wait for more requests. The number of requests in other batches is
	// a power of two, so that few shapes are bound.
	Preferred []int
	// Delay is how long a request may wait for others. With 0, a batch has the requests that wait when a worker is
	// idle.
	Delay time.Duration
	// Limit is the number of requests that may wait; 0: 1024.
	Limit int
	// Levels is the number of priorities; 0: 1. Level 1 goes first.
	Levels int
	// Default is the level of requests without one; 0: the last level.
	Default int
	// Batch is the symbol of the batch dimension, if the model does not declare it.
	Batch string
	// Ran, if not nil, is called after each batch: with the number of its requests, and the time that it took.
	Ran func(requests int, took time.Duration)
}

// Result is the answer to a request.
type Result struct {
	Out map[string]tensor.Datum
	// Waited is the time until the batch started, Ran the time of the batch, and Joined the number of its requests.
	Waited, Ran time.Duration
	Joined      int
}

// Queue runs requests on one model. It is safe for concurrent use.
type Queue struct {
	m       *runtime.Model
	o       Options
	axes    axes
	mu      sync.Mutex
	wake    sync.Cond // a request came, a delay passed, or the queue was closed
	levels  [][]*request
	pending int
	closed  bool
	why     string          // the reason for which requests are not joined; empty if they are
	checked map[string]bool // shapes with numbers of requests whose first batch was compared
	workers sync.WaitGroup
}

// request is a run, or the step of a stream.
type request struct {
	ctx    context.Context
	key    string // equal for requests that may be joined; empty: none
	stream *runtime.Stream
	in     map[string]tensor.Datum
	since  time.Time
	taken  bool
	res    Result
	err    error
	done   chan struct{}
}

// maxChecked bounds the memory for Queue.checked.
const maxChecked = 4096

// steps is the key of steps of streams, which StepMany sorts by shape. Keys of runs begin with another byte.
const steps = "s"

// maxSteps is the number of streams that step together, as many as StepMany joins.
const maxSteps = 64

// New makes a queue. Its workers run until Close.
func New(m *runtime.Model, o Options) (*Queue, error) {
	for name, v := range map[string]*int{"Workers": &o.Workers, "Max": &o.Max, "Limit": &o.Limit, "Levels": &o.Levels} {
		if *v < 0 {
			return nil, fmt.Errorf("queue: %s: expected 0 or more, found %d", name, *v)
		}
		if *v == 0 {
			*v = map[string]int{"Workers": 1, "Max": 32, "Limit": 1024, "Levels": 1}[name]
		}
	}
	if o.Default == 0 {
		o.Default = o.Levels
	}
	if o.Default < 1 || o.Default > o.Levels {
		return nil, fmt.Errorf("queue: Default: expected a level of 1 to %d, found %d", o.Levels, o.Default)
	}
	for _, n := range o.Preferred {
		if n < 1 || n > o.Max {
			return nil, fmt.Errorf("queue: Preferred: expected sizes of 1 to %d, found %d", o.Max, n)
		}
	}
	q := &Queue{m: m, o: o, levels: make([][]*request, o.Levels), checked: map[string]bool{}}
	q.wake.L = &q.mu
	q.axes, q.why = sampleAxes(m, o.Batch)
	if o.Max == 1 {
		q.why = "the maximum batch is 1"
	}
	for range o.Workers {
		q.workers.Go(q.work)
	}
	return q, nil
}

// Joined reports whether requests are joined, and the reason if they are not.
func (q *Queue) Joined() (bool, string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.why == "", q.why
}

// Axis returns the axis of the batch dimension that all inputs and outputs share, or -1 if requests are not joined, or
// by several axes.
func (q *Queue) Axis() int {
	if joined, _ := q.Joined(); !joined {
		return -1
	}
	all := slices.Concat(q.axes.in, q.axes.out)
	for _, axis := range all {
		if axis != all[0] {
			return -1
		}
	}
	return all[0]
}

// Max returns the number of requests that one batch may have.
func (q *Queue) Max() int { return q.o.Max }

// Waiting returns the number of requests that wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending
}

// Run computes the model's outputs, as Session.Run does. level is the priority, or 0 for the default. When ctx ends,
// Run returns its error, and a request that waits is dropped. The inputs must not change afterwards.
func (q *Queue) Run(ctx context.Context, in map[string]tensor.Datum, level int) (Result, error) {
	r := &request{in: in}
	if q.axes.in != nil {
		r.key = q.axes.key(q.m, in)
	}
	return q.submit(ctx, r, level)
}

// Step steps a stream of the model, as Stream.Step does with empty outputs.
func (q *Queue) Step(ctx context.Context, s *runtime.Stream, in map[string]tensor.Datum, level int) (Result, error) {
	return q.submit(ctx, &request{in: in, stream: s, key: steps}, level)
}

func (q *Queue) submit(ctx context.Context, r *request, level int) (Result, error) {
	if level == 0 {
		level = q.o.Default
	}
	if level < 1 || level > q.o.Levels {
		return Result{}, &runtime.InputError{Name: "priority",
			Msg: fmt.Sprintf("expected a level of 1 to %d, found %d", q.o.Levels, level)}
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	r.ctx, r.done, r.since = ctx, make(chan struct{}), time.Now()
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return Result{}, ErrClosed
	case q.pending >= q.o.Limit:
		q.mu.Unlock()
		return Result{}, fmt.Errorf("%w: %d", ErrFull, q.pending)
	}
	q.levels[level-1] = append(q.levels[level-1], r)
	q.pending++
	q.wake.Signal()
	q.mu.Unlock()
	select {
	case <-r.done:
		return r.res, r.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	if !r.taken {
		q.remove(func(other *request) bool { return other == r })
		q.mu.Unlock()
		return Result{}, ctx.Err()
	}
	q.mu.Unlock()
	if r.stream != nil { // it is in use until the batch ends
		<-r.done
		return r.res, r.err
	}
	return Result{}, ctx.Err()
}

// Close refuses further requests, and returns when those that wait are done.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.wake.Broadcast()
	q.mu.Unlock()
	q.workers.Wait()
}

// remove drops the waiting requests that f selects, and returns them. The queue is locked.
func (q *Queue) remove(f func(r *request) bool) []*request {
	var out []*request
	for i, level := range q.levels {
		rest := level[:0]
		for _, r := range level {
			if f(r) {
				r.taken = true
				out = append(out, r)
			} else {
				rest = append(rest, r)
			}
		}
		clear(level[len(rest):])
		q.levels[i] = rest
	}
	q.pending -= len(out)
	return out
}

// work runs batches until the queue is closed and empty.
func (q *Queue) work() {
	session := q.m.NewSession()
	defer session.Close()
	for {
		batch := q.next()
		if batch == nil {
			return
		}
		q.run(session, batch)
		for _, r := range batch {
			close(r.done)
		}
	}
}

// next waits for a batch. It returns nil if the queue is closed and empty.
func (q *Queue) next() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for _, r := range q.remove(func(r *request) bool { return r.ctx.Err() != nil }) {
			r.err = r.ctx.Err()
			close(r.done)
		}
		first, n, wait := q.due()
		switch {
		case first != nil:
			batch := q.take(first, n)
			if q.pending > 0 { // for another worker, which may wait for longer than this one did
				q.wake.Signal()
			}
			return batch
		case q.closed:
			return nil
		case wait > 0:
			timer := time.AfterFunc(wait, func() {
				q.mu.Lock() // not before this worker waits
				defer q.mu.Unlock()
				q.wake.Broadcast()
			})
			q.wake.Wait()
			timer.Stop()
		default:
			q.wake.Wait()
		}
	}
}

// due returns the first request that need not wait for others, with the size of its batch; or how long until there is
// one.
func (q *Queue) due() (first *request, n int, wait time.Duration) {
	var counts map[string]int
	if q.o.Delay > 0 && !q.closed {
		counts = map[string]int{}
		for _, level := range q.levels {
			for _, r := range level {
				counts[r.key]++
			}
		}
	}
	for _, level := range q.levels {
		for _, r := range level {
			joins := r.key == steps || r.key != "" && q.why == ""
			if counts == nil || !joins {
				return r, q.size(r, joins), 0
			}
			left := q.o.Delay - time.Since(r.since)
			if n := counts[r.key]; n >= q.most(r) || slices.Contains(q.o.Preferred, n) || left <= 0 {
				return r, q.size(r, joins), 0
			}
			if wait == 0 || left < wait {
				wait = left
			}
		}
	}
	return nil, 0, wait
}

// most returns the number of requests that the batch of r may have.
func (q *Queue) most(r *request) int {
	if r.key == steps {
		return maxSteps
	}
	return q.o.Max
}

// size returns the number of requests for the batch of r: a preferred size, or a power of two.
func (q *Queue) size(r *request, joins bool) int {
	if !joins {
		return 1
	}
	count := 0
	for _, level := range q.levels {
		for _, other := range level {
			if other.key == r.key {
				count++
			}
		}
	}
	count = min(count, q.most(r))
	if r.key == steps {
		return count
	}
	best := 1
	for best*2 <= count {
		best *= 2
	}
	for _, n := range q.o.Preferred {
		if n <= count {
			best = max(best, n)
		}
	}
	return best
}

// take takes n requests with the key of first, beginning with it.
func (q *Queue) take(first *request, n int) []*request {
	found := false
	return q.remove(func(r *request) bool {
		found = found || r == first
		if !found || n == 0 || r != first && r.key != first.key {
			return false
		}
		n--
		return true
	})
}

// Workers returns the number of batches that run at once.
func (q *Queue) Workers() int { return q.o.Workers }

// Limit returns the number of requests that may wait.
func (q *Queue) Limit() int { return q.o.Limit }
