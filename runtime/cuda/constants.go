package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
)

// constants are the data of one program that stay in the memory of the device. Programs of a model share them
// (runtime.Constants), each entry until the last one is closed.
type constants struct {
	v      *device
	shared *runtime.Constants
	mu     sync.Mutex
	used   map[record.Key]*constant
}

// constant is data in the memory of a device.
type constant struct {
	mu    sync.Mutex
	users int // programs
	at    driver.Ptr
	bytes int
}

// sharedKey is the key of a constant in runtime.Constants.
type sharedKey struct {
	v *device
	record.Key
}

// get returns the address of a constant, and uploads it for its first user.
func (c *constants) get(k *record.Constant) (driver.Ptr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.used[k.Key]; x != nil {
		return x.at, nil
	}
	x := c.shared.Get(sharedKey{c.v, k.Key}, func() any { return new(constant) }).(*constant)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users == 0 {
		if err := x.upload(c.v, k); err != nil {
			return 0, err
		}
	}
	x.users++
	c.used[k.Key] = x
	return x.at, nil
}

// upload allocates the memory, and waits until the data are there.
func (x *constant) upload(v *device, k *record.Constant) error {
	data := k.Make()
	if x.bytes = len(data); x.bytes == 0 {
		return nil
	}
	at, err := v.allocate(x.bytes, v.stream)
	var full *outOfMemory
	if errors.As(err, &full) {
		return &runtime.MemoryError{Need: int64(x.bytes), Limit: full.free,
			What: fmt.Sprintf("constant %s, in the memory of %s,", k.Key, v.name)}
	}
	if err != nil {
		return err
	}
	if err := v.upload(at, data); err != nil {
		_ = v.release(func(note func(error)) { note(v.drv.Free(at, v.stream)) })
		return err
	}
	x.at = at
	return nil
}

// upload copies data to the device, and waits for it.
func (v *device) upload(at driver.Ptr, data []byte) error {
	v.loading.Lock()
	defer v.loading.Unlock()
	return v.wait(func() error {
		for len(data) > 0 {
			n := copy(v.buffer, data)
			if err := v.drv.CopyToDevice(at, v.buffer[:n], v.stream); err != nil {
				return err
			}
			if err := v.drv.Synchronize(v.stream); err != nil {
				return err
			}
			at, data = at+driver.Ptr(n), data[n:]
		}
		return nil
	})
}

// download copies from the device, and waits for it.
func (v *device) download(data []byte, at driver.Ptr) error {
	v.loading.Lock()
	defer v.loading.Unlock()
	return v.wait(func() error {
		for len(data) > 0 {
			part := v.buffer[:min(len(data), len(v.buffer))]
			if err := v.drv.CopyToHost(part, at, v.stream); err != nil {
				return err
			}
			if err := v.drv.Synchronize(v.stream); err != nil {
				return err
			}
			n := copy(data, part)
			at, data = at+driver.Ptr(n), data[n:]
		}
		return nil
	})
}

// close gives up the constants of a program, none of whose executables is left.
func (c *constants) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var unused []driver.Ptr
	for _, x := range c.used {
		x.mu.Lock()
		if x.users--; x.users == 0 && x.at != 0 {
			unused = append(unused, x.at)
			x.at = 0
		}
		x.mu.Unlock()
	}
	c.used = nil
	if len(unused) == 0 {
		return nil
	}
	v := c.v
	err := v.release(func(note func(error)) {
		for _, at := range unused {
			note(v.drv.Free(at, v.stream))
		}
	})
	if err != nil || v.Lost() != nil {
		return err
	}
	return v.synchronize(v.stream)
}
