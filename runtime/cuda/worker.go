package cuda

import (
	goruntime "runtime"

	"github.com/essmc/essmc/runtime"
)

// worker is a goroutine locked to a thread of its own, because contexts belong to threads.
type worker struct{ calls chan call }

type call struct {
	f    func() error
	done chan<- error
}

func newWorker() *worker {
	w := &worker{make(chan call)}
	go w.run()
	return w
}

// run ends together with its thread, so that no other goroutine gets a thread with a context.
func (w *worker) run() {
	goruntime.LockOSThread()
	for c := range w.calls {
		c.done <- guarded(c.f)
	}
}

func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = runtime.Recovered(nil, v)
		}
	}()
	return f()
}

// do calls f on the thread, and waits for it.
func (w *worker) do(f func() error) error {
	done := make(chan error, 1)
	w.calls <- call{f, done}
	return <-done
}

func (w *worker) stop() { close(w.calls) }
