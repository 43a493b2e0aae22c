package cuda

import (
	"fmt"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
)

// constants are the data of one program that stay in the memory of the device. Programs of a model share them
// (runtime.Constants), each entry until the last one is closed.
//
// Data that belong to a step are tables: they may be others for each shape. Tables that no executable uses any more stay for
// the next one as long as they take at most idle bytes together; the oldest are given back first.
type constants struct {
	v      *device
	shared *runtime.Constants
	idle   int

	mu     sync.Mutex
	used   map[record.Key]*entry
	unused []record.Key // tables of no executable, those first that are so for longest
	bytes  int          // of these
}

// idleBytes is the usual limit of tables that no executable uses.
const idleBytes = 64 << 20

// entry is the use of a constant by a program.
type entry struct {
	*constant
	executables int // of a table
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

// get returns the address of a constant, and uploads it for its first user. tables are those of the executable that asks.
func (c *constants) get(k *record.Constant, tables *[]record.Key) (driver.Ptr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.used[k.Key]
	if x == nil {
		x = &entry{constant: c.shared.Get(sharedKey{c.v, k.Key}, func() any { return new(constant) }).(*constant)}
		if err := x.acquire(c.v, k); err != nil {
			return 0, err
		}
		c.used[k.Key] = x
	} else if i := slices.Index(c.unused, k.Key); i >= 0 {
		c.unused = slices.Delete(c.unused, i, i+1)
		c.bytes -= x.bytes
	}
	if _, ok := k.Key.Of.(*ir.Node); ok && !slices.Contains(*tables, k.Key) {
		*tables = append(*tables, k.Key)
		x.executables++
	}
	return x.at, nil
}

// release ends the use of tables by an executable.
func (c *constants) release(tables []record.Key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range tables {
		x := c.used[key]
		if x == nil { // the program is closed
			continue
		}
		if x.executables--; x.executables == 0 {
			c.unused = append(c.unused, key)
			c.bytes += x.bytes
		}
	}
	var free []driver.Ptr
	for c.bytes > c.idle {
		x := c.used[c.unused[0]]
		free = x.leave(free)
		delete(c.used, c.unused[0])
		c.unused = c.unused[1:]
		c.bytes -= x.bytes
	}
	return c.free(free)
}

// acquire makes a program a user.
func (x *constant) acquire(v *device, k *record.Constant) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users == 0 {
		if err := x.upload(v, k); err != nil {
			return err
		}
	}
	x.users++
	return nil
}

// leave ends that, and adds memory that has no users any more to a list.
func (x *constant) leave(free []driver.Ptr) []driver.Ptr {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users--; x.users == 0 && x.at != 0 {
		free = append(free, x.at)
		x.at = 0
	}
	return free
}

// upload allocates the memory, and waits until the data are there.
func (x *constant) upload(v *device, k *record.Constant) error {
	data := k.Make()
	if x.bytes = len(data); x.bytes == 0 {
		return nil
	}
	at, err := v.allocate(x.bytes, v.stream, fmt.Sprintf("constant %s", k.Key))
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
			if err := v.finish(v.stream); err != nil {
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
			if err := v.finish(v.stream); err != nil {
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
	var free []driver.Ptr
	for _, x := range c.used {
		free = x.leave(free)
	}
	c.used, c.unused, c.bytes = nil, nil, 0
	return c.free(free)
}

// free gives memory back that no stream uses any more.
func (c *constants) free(list []driver.Ptr) error {
	if len(list) == 0 {
		return nil
	}
	v := c.v
	err := v.release(func(note func(error)) {
		for _, at := range list {
			note(v.drv.Free(at, v.stream))
		}
	})
	if err != nil || v.Lost() != nil {
		return err
	}
	return v.synchronize(v.stream)
}
