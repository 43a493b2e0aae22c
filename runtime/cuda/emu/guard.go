package emu

import (
	"sort"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Calls of tests alone, for memory that a program divides itself. No driver of NVIDIA's has them.

// guard is bytes of an allocation that nobody may use.
type guard struct{ from, to uint64 }

// Guard lets nobody use bytes of an allocation any more: neither kernels, nor copies and fills.
func (d *Driver) Guard(at driver.Ptr, bytes uint64) error {
	const call = "Guard"
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.work(call)
	if err != nil {
		return err
	}
	a := v.find(uint64(at))
	if a == nil || a.size()-(uint64(at)-a.base) < bytes {
		return d.misuse(call, driver.InvalidValue, "%d bytes at address %#x: %s", bytes, uint64(at), v.describe(uint64(at)))
	}
	from := uint64(at) - a.base
	if i := a.guardAt(from); i == len(a.guards) || a.guards[i] != (guard{from, from + bytes}) {
		a.guards = append(a.guards, guard{from, from + bytes})
		sort.Slice(a.guards, func(i, j int) bool { return a.guards[i].from < a.guards[j].from })
	}
	return nil
}

// guardAt returns the index of the first guard that ends behind an offset.
func (a *allocation) guardAt(at uint64) int {
	return sort.Search(len(a.guards), func(i int) bool { return a.guards[i].to > at })
}

// guarded reports whether some of n bytes from an offset are guarded. Guards do not overlap.
func (a *allocation) guarded(at, n uint64) bool {
	i := a.guardAt(at)
	return i < len(a.guards) && a.guards[i].from < at+n
}

// Forget lets memory hold nothing again, in the order of the stream: who reads it before it is written is found.
func (d *Driver) Forget(at driver.Ptr, bytes uint64, h driver.Stream) error {
	const call = "Forget"
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.on(call, h)
	if err != nil {
		return err
	}
	if err := d.reserved(call, s, at, bytes); err != nil {
		return err
	}
	d.enqueue(s, work{do: func() *driver.Error {
		a, from, err := s.device.span(at, bytes)
		if err != nil {
			return d.misuse(call, driver.IllegalAddress, "%v", err)
		}
		for i := range bytes {
			a.data[from+i] = 0xff
		}
		for _, o := range d.observers {
			o.forgotten(a, from, bytes)
		}
		return nil
	}})
	return nil
}
