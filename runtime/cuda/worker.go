package cuda

import (
	goruntime "runtime"

	"github.com/essmc/essmc/runtime"
)

// worker is a goroutine on a thread of the operating system of its own: contexts belong to threads.
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

// run ends with its thread, so that no other goroutine finds a context there.
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
