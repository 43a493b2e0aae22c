package device

import (
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// Backend compiles graphs for a device.
type Backend struct {
	// Name is the backend's name, in messages.
	Name string
	// Operators are what the device computes; nil lets the host compute everything.
	Operators Operators
	// Open opens the device for the first program. It is closed after the last one.
	Open func() (Device, error)
	// Fallback lets the host compute operators that the device does not compute.
	Fallback bool
	// Idle is the number of bytes of tables to keep that no executable uses; see constants.
	Idle int

	inspect func(*plan) // gets each plan before its memory is allocated

	mu    sync.Mutex
	open  Device // nil when no program uses it
	users int
}

// Compile lowers g. It returns a *runtime.UnsupportedError for a node that the device does not compute. The caller has
// refused the options that it does not have.
func (b *Backend) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	l := &lowerer{Backend: b}
	p, err := lowering.Lower(g, c, l)
	if err == nil {
		err = l.refusal()
	}
	if err != nil {
		return nil, err
	}
	v, err := b.acquire()
	if err != nil {
		return nil, err
	}
	return newProgram(p, b, v, c.Constants), nil
}

// acquire returns the device for a program, and opens it for the first one.
func (b *Backend) acquire() (Device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		v, err := b.Open()
		if err != nil {
			return nil, err
		}
		b.open = v
	}
	b.users++
	return b.open, nil
}

// release closes the device after the last program.
func (b *Backend) release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users--; b.users > 0 {
		return nil
	}
	v := b.open
	b.open = nil
	return v.Close()
}
