package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/device"
)

// card is a device that programs use: its context, its pool of memory, and the threads that call the driver.
type card struct {
	drv  driver.Driver
	num  driver.Device
	name string // for messages: "device 0 (NVIDIA H100)"

	ctx    driver.Context
	pool   driver.Pool
	stream driver.Stream // for uploads of constants
	buffer []byte        // for uploads of constants

	issue   *worker // launches and copies
	loading sync.Mutex

	mu      sync.Mutex
	waiting []*worker // idle ones
	modules map[textHash]*module
	lost    error
}

const (
	// idleBytes is the default for the tables that no executable uses.
	idleBytes = 64 << 20
	// keepBytes is the default for the free memory that the pool keeps for the next executable.
	keepBytes = 64 << 20
	// uploadBytes is the size of the buffer for uploads of constants.
	uploadBytes = 1 << 20
)

// openCard creates a context and everything that programs share. The pool keeps up to keep bytes of free memory.
func openCard(drv driver.Driver, num driver.Device, name string, keep uint64) (_ *card, err error) {
	v := &card{drv: drv, num: num, name: name, issue: newWorker(), modules: map[textHash]*module{}}
	defer func() {
		if err != nil {
			_ = v.Close()
		}
	}()
	return v, v.do(func() (err error) {
		if v.ctx, err = drv.RetainContext(num); driver.Is(err, driver.DeviceUnavailable) {
			return fmt.Errorf("another process uses it exclusively (nvidia-smi shows the process and the compute mode); choose another "+
				"card, or set the mode to DEFAULT: %w", err)
		} else if err != nil {
			return err
		}
		if err = drv.SetContext(v.ctx); err != nil {
			return err
		}
		if v.pool, err = drv.CreatePool(num, 0); err != nil {
			return err
		}
		if err = drv.KeepPool(v.pool, keep); err != nil {
			return err
		}
		if v.stream, err = drv.CreateStream(); err != nil {
			return err
		}
		v.buffer, err = drv.AllocHost(uploadBytes)
		return err
	})
}

// Close frees everything. After a sticky error the driver refuses to; the memory is freed when the process ends.
func (v *card) Close() error {
	err := v.release(func(note func(error)) {
		for _, m := range v.modules {
			note(v.drv.UnloadModule(m.handle))
		}
		if v.buffer != nil {
			note(v.drv.FreeHost(v.buffer))
		}
		if v.stream != 0 {
			note(v.drv.DestroyStream(v.stream))
		}
		if v.pool != 0 {
			note(v.drv.DestroyPool(v.pool))
		}
		if v.ctx != 0 {
			note(v.drv.ReleaseContext(v.num))
		}
	})
	v.issue.stop()
	for _, w := range v.waiting {
		w.stop()
	}
	return err
}

// deviceError adds the device to the error of a call.
type deviceError struct {
	device string
	err    error
}

func (e *deviceError) Error() string { return fmt.Sprintf("cuda: %s: %v", e.device, e.err) }
func (e *deviceError) Unwrap() error { return e.err }

// LostError is the error of every call on a device after an error that its driver does not recover from.
type LostError struct {
	Device string // "device 0 (NVIDIA H100)"
	Err    error  // the first such error
}

// Error returns the device and the cause.
func (e *LostError) Error() string {
	return fmt.Sprintf("cuda: %s: an earlier error has stopped it (%v); close the model, and load it again", e.Device, e.Err)
}

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Err }

// Lost returns the error of calls on a lost device, or nil if the device works.
func (v *card) Lost() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lost
}

// note adds the device to an error of the driver, and records an error that ends the device.
func (v *card) note(err error) error {
	var of *driver.Error
	var named *deviceError
	if !errors.As(err, &of) || errors.As(err, &named) {
		return err
	}
	if driver.Sticky(err) {
		v.Lose(err)
	}
	return &deviceError{v.name, err}
}

// Lose marks the device as lost for all programs.
func (v *card) Lose(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost == nil {
		v.lost = &LostError{v.name, err}
	}
}

// do calls f on the thread that issues work. f must not wait for the device.
func (v *card) do(f func() error) error {
	if err := v.Lost(); err != nil {
		return err
	}
	return v.note(v.issue.do(f))
}

// wait calls f on a thread of its own. f may wait for the device.
func (v *card) wait(f func() error) error {
	if err := v.Lost(); err != nil {
		return err
	}
	v.mu.Lock()
	var w *worker
	if n := len(v.waiting); n > 0 {
		w, v.waiting = v.waiting[n-1], v.waiting[:n-1]
	}
	v.mu.Unlock()
	if w == nil {
		w = newWorker()
		if err := w.do(func() error { return v.drv.SetContext(v.ctx) }); err != nil {
			w.stop()
			return v.note(err)
		}
	}
	err := v.note(w.do(f))
	v.mu.Lock()
	v.waiting = append(v.waiting, w)
	v.mu.Unlock()
	return err
}

// synchronize waits until all work of s is done.
func (v *card) synchronize(s driver.Stream) error {
	return v.wait(func() error { return v.finish(s) })
}

// finish is synchronize on a thread that may wait. If it fails, it tries again, because work that continues would
// use memory that others get next. If that fails too, the device is lost.
func (v *card) finish(s driver.Stream) error {
	err := v.drv.Synchronize(s)
	if err != nil && !driver.Sticky(err) && v.drv.Synchronize(s) != nil {
		v.Lose(err)
	}
	return err
}

// release calls f, which frees memory and handles of the device, and notes errors. It returns the first of them. It
// returns nil once the device is lost, since everything is freed with the process then.
func (v *card) release(f func(note func(error))) error {
	lost := v.Lost() != nil
	var first error
	err := v.issue.do(func() error {
		f(func(err error) {
			if first == nil {
				first = err
			}
		})
		return first
	})
	if lost {
		return nil
	}
	return v.note(err)
}

// allocate returns memory of the device; what describes it in errors. If the device is full, the error is a
// *runtime.MemoryError.
func (v *card) allocate(bytes int, s driver.Stream, what string) (a driver.Ptr, err error) {
	err = v.do(func() error {
		if a, err = v.drv.AllocFromPool(v.pool, uint64(bytes), s); !driver.Is(err, driver.OutOfMemory) {
			return err
		}
		// The pool may still keep memory that other executables have freed.
		if err := v.drv.TrimPool(v.pool, 0); err != nil {
			return err
		}
		if a, err = v.drv.AllocFromPool(v.pool, uint64(bytes), s); driver.Is(err, driver.OutOfMemory) {
			free, _, infoErr := v.drv.MemoryInfo()
			if infoErr != nil {
				free = 0
			}
			return &runtime.MemoryError{Need: int64(bytes), Limit: int64(free),
				What: fmt.Sprintf("%s, in the memory of %s,", what, v.name)}
		}
		return err
	})
	return a, err
}

// Allocate returns memory for data that programs share, and for the states of streams.
func (v *card) Allocate(bytes int, what string) (device.Ptr, error) {
	at, err := v.allocate(bytes, v.stream, what)
	return device.Ptr(at), err
}

// Free frees memory that no stream uses any more.
func (v *card) Free(list []device.Ptr) error {
	if len(list) == 0 {
		return nil
	}
	err := v.release(func(note func(error)) {
		for _, at := range list {
			note(v.drv.Free(driver.Ptr(at), v.stream))
		}
	})
	if err != nil || v.Lost() != nil {
		return err
	}
	return v.synchronize(v.stream)
}

// AllocateHost returns pinned memory.
func (v *card) AllocateHost(bytes int, what string) (b []byte, err error) {
	err = v.wait(func() (err error) { // it may take long
		b, err = v.drv.AllocHost(bytes)
		return err
	})
	if driver.Is(err, driver.OutOfMemory) {
		return nil, &runtime.MemoryError{Need: int64(bytes), What: what + ", in memory of the host that the device reaches,"}
	}
	return b, err
}

// Clear sets memory to zero, and waits until that is done.
func (v *card) Clear(at device.Ptr, bytes int) error {
	if err := v.do(func() error { return v.drv.Fill(driver.Ptr(at), 0, uint64(bytes), v.stream) }); err != nil {
		return err
	}
	return v.synchronize(v.stream)
}

// Upload copies data to the device, and waits until they have arrived.
func (v *card) Upload(to device.Ptr, data []byte) error {
	v.loading.Lock()
	defer v.loading.Unlock()
	return v.wait(func() error {
		for len(data) > 0 {
			n := copy(v.buffer, data)
			if err := v.drv.CopyToDevice(driver.Ptr(to), v.buffer[:n], v.stream); err != nil {
				return err
			}
			if err := v.finish(v.stream); err != nil {
				return err
			}
			to, data = to+device.Ptr(n), data[n:]
		}
		return nil
	})
}

// Download copies data from the device, and waits until they have arrived.
func (v *card) Download(data []byte, from device.Ptr) error {
	v.loading.Lock()
	defer v.loading.Unlock()
	return v.wait(func() error {
		for len(data) > 0 {
			part := v.buffer[:min(len(data), len(v.buffer))]
			if err := v.drv.CopyToHost(part, driver.Ptr(from), v.stream); err != nil {
				return err
			}
			if err := v.finish(v.stream); err != nil {
				return err
			}
			n := copy(data, part)
			from, data = from+device.Ptr(n), data[n:]
		}
		return nil
	})
}
