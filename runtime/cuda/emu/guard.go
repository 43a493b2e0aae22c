package emu

import (
	"sort"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Calls for tests of programs that divide memory themselves. NVIDIA's drivers do not have them.

// guard is a range of an allocation that must not be accessed.
type guard struct{ from, to uint64 }

// Guard forbids any further access to a range of an allocation, by kernels, copies and fills.
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

// guardAt returns the index of the first guard that ends after an offset.
func (a *allocation) guardAt(at uint64) int {
	return sort.Search(len(a.guards), func(i int) bool { return a.guards[i].to > at })
}

// guarded reports whether any of n bytes from an offset is guarded. Guards do not overlap.
func (a *allocation) guarded(at, n uint64) bool {
	i := a.guardAt(at)
	return i < len(a.guards) && a.guards[i].from < at+n
}

// Forget makes memory undefined again, in the order of the stream. A read before the next write is then a finding.
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
