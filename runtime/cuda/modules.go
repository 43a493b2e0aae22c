package cuda

import (
	"crypto/sha256"
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/device"
)

type textHash [sha256.Size]byte

// module is a kernel that the driver has compiled.
type module struct {
	hash   textHash
	handle driver.Module
	f      driver.Function
	users  int // number of programs; guarded by card.loading
}

// modules are the modules that a program uses. Equal texts are compiled once for all programs of a device, and
// unloaded with the last user.
type modules struct {
	v     *card
	users map[textHash]*module // guarded by card.loading
}

// NewModules returns the modules of a new program.
func (v *card) NewModules() device.Modules { return &modules{v: v, users: map[textHash]*module{}} }

// function returns a compiled kernel.
func (u *modules) function(c *kernel.Code) (driver.Function, error) {
	v := u.v
	v.loading.Lock()
	defer v.loading.Unlock()
	hash := textHash(sha256.Sum256([]byte(c.Text)))
	if m := u.users[hash]; m != nil {
		return m.f, nil
	}
	m := v.modules[hash]
	if m == nil {
		m = &module{hash: hash}
		if err := v.wait(func() error { return m.load(v.drv, c) }); err != nil {
			return 0, err
		}
		v.modules[hash] = m
	}
	m.users++
	u.users[hash] = m
	return m.f, nil
}

// load compiles c. This may take long, so it does not run on the thread that issues work.
func (m *module) load(drv driver.Driver, c *kernel.Code) error {
	handle, log, err := drv.LoadModule(append([]byte(c.Text), 0))
	if err != nil {
		if log != "" {
			return fmt.Errorf("kernel %s: %w: %s", c.Name, err, log)
		}
		return fmt.Errorf("kernel %s: %w", c.Name, err)
	}
	m.handle = handle
	if m.f, err = drv.GetFunction(handle, c.Name); err == nil && c.Dynamic > 0 {
		err = drv.SetFunctionAttribute(m.f, driver.SharedBytes, c.Dynamic)
	}
	if err != nil {
		_ = drv.UnloadModule(handle)
		return fmt.Errorf("kernel %s: %w", c.Name, err)
	}
	return nil
}

// Close releases the modules of a program that has no executables any more.
func (u *modules) Close() error {
	v := u.v
	v.loading.Lock()
	defer v.loading.Unlock()
	var unused []driver.Module
	for hash, m := range u.users {
		if m.users--; m.users == 0 {
			delete(v.modules, hash)
			unused = append(unused, m.handle)
		}
	}
	u.users = nil
	if len(unused) == 0 {
		return nil
	}
	return v.release(func(note func(error)) {
		for _, m := range unused {
			note(v.drv.UnloadModule(m))
		}
	})
}
