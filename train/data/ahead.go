package data

import (
	"context"
	"sync"
)

// ahead makes the batches of an epoch ahead of their use, in any order, and returns them in their own. What is made and
// not taken yet has at most as many bytes as the loader allows, or is one batch.
type ahead struct {
	loader *Loader
	order  *order
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	next    int            // the next batch to be begun
	wanted  int            // the next batch to be taken
	made    map[int]result // batches that are made and not taken
	held    int64          // bytes of batches that are made, and estimates of those that are begun
	stopped bool
}

type result struct {
	batch *Batch
	err   error
	bytes int64
}

// start starts the workers, from the given batch on.
func (l *Loader) start(number int) *ahead {
	ctx, cancel := context.WithCancel(context.Background())
	a := &ahead{loader: l, order: l.order, cancel: cancel, next: number, wanted: number, made: map[int]result{}}
	a.changed = sync.NewCond(&a.mu)
	for range l.options.Workers {
		a.ended.Go(func() { a.work(ctx) })
	}
	return a
}

// work makes batches until there are no more.
func (a *ahead) work(ctx context.Context) {
	total := a.loader.Batches()
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		// The wanted batch is always begun, so that the loader goes on if it is larger than the bound.
		estimate := int64(0)
		for !a.stopped && a.next < total {
			if estimate = a.loader.estimate(a.order.samples(a.next)); a.next == a.wanted || a.held+estimate <= a.loader.options.Memory {
				break
			}
			a.changed.Wait()
		}
		if a.stopped || a.next >= total {
			return
		}
		number := a.next
		a.next = a.loader.own(number + 1)
		a.held += estimate
		a.mu.Unlock()
		b, err := a.loader.make(ctx, a.order, number)
		a.mu.Lock()
		r := result{batch: b, err: err}
		if err != nil {
			a.next = total // nobody goes on after an error
		} else {
			r.bytes = b.Bytes()
		}
		a.held += r.bytes - estimate
		a.made[number] = r
		a.changed.Broadcast()
	}
}

// estimate returns the bytes of a batch of samples: at most, if the number of steps is bounded, and otherwise as far as
// the set knows the steps of its samples.
func (l *Loader) estimate(samples []int) int64 {
	steps := l.options.Padding.Steps
	if steps == 0 {
		steps = l.spec.Steps
	}
	if steps == 0 {
		for _, i := range samples {
			steps = max(steps, l.set.Steps(i))
		}
	}
	if n := l.options.Padding.MultipleOf; n > 1 {
		steps = (steps + n - 1) / n * n
	}
	row := 8 + 4*int64(l.spec.Features)*int64(steps) // the length and the input
	if l.spec.Token() {
		row += 8 * int64(steps)
	}
	target := 4 * int64(l.spec.Targets)
	switch {
	case l.spec.Labels > 0:
		target = 8 * int64(steps)
	case l.spec.Targets == 0:
		target = 8
	}
	return int64(len(samples)) * (int64(l.spec.Inputs)*row + target)
}

// take waits for the next batch.
func (a *ahead) take(ctx context.Context) (*Batch, error) {
	unwatch := context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.changed.Broadcast()
	})
	defer unwatch()
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if r, ok := a.made[a.wanted]; ok {
			delete(a.made, a.wanted)
			a.wanted = a.loader.own(a.wanted + 1)
			a.held -= r.bytes
			a.changed.Broadcast()
			return r.batch, r.err
		}
		a.changed.Wait()
	}
}

// stop ends the workers and waits for them.
func (a *ahead) stop() {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	a.cancel()
	a.changed.Broadcast()
	a.ended.Wait()
}
