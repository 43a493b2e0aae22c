package device

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
)

// constants are a program's data in the memory of the device. Programs of one model share entries
// (runtime.Constants); an entry stays until the last of them is closed. Data that follow from parameters belong to one
// version of them, and are computed again in the same memory for each new content.
//
// Data that belong to a step are tables, which may differ between shapes. Tables that no executable uses are kept
// for the next one, up to idle bytes in total; beyond that the oldest are freed first.
type constants struct {
	v      Device
	shared *runtime.Constants
	idle   int

	mu     sync.Mutex
	used   map[Key]*entry
	unused []Key // tables without executables, longest unused first
	bytes  int   // of the unused tables
}

// entry is a program's use of a constant.
type entry struct {
	*constant
	executables int // users of a table
}

// constant is data in the memory of a device.
type constant struct {
	mu    sync.Mutex
	users int // number of programs
	at    Ptr
	bytes int
	again *Constant // what computes the data of its first user, if they follow from parameters
}

// sharedKey is the key of a constant in runtime.Constants.
type sharedKey struct {
	v Device
	Key
}

// get returns the address of a constant, and uploads it for its first user. tables are the tables of the calling
// executable.
func (c *constants) get(k *Constant, tables *[]Key) (Ptr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.used[k.Key]
	if x == nil {
		x = &entry{constant: c.share(k)}
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

// share returns what the programs of the model, or those of one version of its parameters, share.
func (c *constants) share(k *Constant) *constant {
	key, v := sharedKey{c.v, k.Key}, c.v
	if len(k.From) == 0 {
		return c.shared.Get(key, func() any { return new(constant) }).(*constant)
	}
	return c.shared.Settled(k.From, nil, key, func() (any, func(context.Context) error) {
		x := new(constant)
		return x, func(context.Context) error { return x.renew(v) }
	}).(*constant)
}

// release ends the use of tables by an executable.
func (c *constants) release(tables []Key) error {
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
	var free []Ptr
	for c.bytes > c.idle {
		x := c.used[c.unused[0]]
		free = x.leave(free)
		delete(c.used, c.unused[0])
		c.unused = c.unused[1:]
		c.bytes -= x.bytes
	}
	return c.v.Free(free)
}

// acquire adds a program to the users of the constant.
func (x *constant) acquire(v Device, k *Constant) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users == 0 {
		if err := x.upload(v, k); err != nil {
			return err
		}
		if len(k.From) > 0 {
			x.again = k
		}
	}
	x.users++
	return nil
}

// renew computes the data again, after the content of parameters has been replaced. Without users there is nothing to
// do.
func (x *constant) renew(v Device) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users == 0 {
		return nil
	}
	data := x.again.Make()
	if len(data) != x.bytes {
		return fmt.Errorf("constant %s: expected %d bytes as before, found %d", x.again.Key, x.bytes, len(data))
	}
	return v.Upload(x.at, data)
}

// leave removes a user. It appends memory without users to free.
func (x *constant) leave(free []Ptr) []Ptr {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.users--; x.users > 0 {
		return free
	}
	if x.at != 0 {
		free = append(free, x.at)
	}
	x.at, x.again = 0, nil
	return free
}

// upload allocates the memory, and waits until the data have arrived.
func (x *constant) upload(v Device, k *Constant) error {
	data := k.Make()
	if x.bytes = len(data); x.bytes == 0 {
		return nil
	}
	at, err := v.Allocate(x.bytes, fmt.Sprintf("constant %s", k.Key))
	if err != nil {
		return err
	}
	if err := v.Upload(at, data); err != nil {
		_ = v.Free([]Ptr{at})
		return err
	}
	x.at = at
	return nil
}

// close releases the constants of a program that has no executables any more.
func (c *constants) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var free []Ptr
	for _, x := range c.used {
		free = x.leave(free)
	}
	c.used, c.unused, c.bytes = nil, nil, 0
	return c.v.Free(free)
}
