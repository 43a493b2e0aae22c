package emu

import (
	"fmt"
	"slices"
	"sort"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// device is an emulated card.
type device struct {
	driver  *Driver
	number  driver.Device
	allocs  []*allocation // by address; freed ones stay, without data
	next    uint64        // address of the next allocation
	used    uint64        // bytes
	held    uint64        // bytes, including free ones that pools keep
	foreign uint64        // bytes that another process holds
	context driver.Context
	retains int
	failed  *driver.Error // the sticky error
}

// Each device has its own range of addresses, with gaps between allocations, so an access out of bounds hits no
// other allocation. No address is used twice.
const (
	firstAddress = 0x7f00_0000_0000
	deviceRange  = 1 << 40
	addressAlign = 256 // of allocations, as the driver aligns them
	redZone      = 4096
)

func (d *device) find(at uint64) *allocation {
	i := d.search(at)
	if i < 0 {
		return nil
	}
	if a := d.allocs[i]; !a.freed && at-a.base < a.size() {
		return a
	}
	return nil
}

// search returns the index of the last allocation that starts at or before at, or -1.
func (d *device) search(at uint64) int {
	return sort.Search(len(d.allocs), func(i int) bool { return d.allocs[i].base > at }) - 1
}

// describe describes an address in words.
func (d *device) describe(at uint64) string {
	i := d.search(at)
	if i < 0 {
		return "no allocation is there"
	}
	a := d.allocs[i]
	switch {
	case at-a.base >= a.bytes && at-a.base < a.bytes+1<<32:
		return fmt.Sprintf("%d bytes after the end of allocation %d of %d bytes", at-a.base-a.bytes, a.number, a.bytes)
	case at-a.base >= a.bytes:
		return "no allocation is there"
	case a.freed:
		return fmt.Sprintf("%d bytes into allocation %d of %d bytes, which is free", at-a.base, a.number, a.bytes)
	}
	return fmt.Sprintf("%d bytes into allocation %d of %d bytes", at-a.base, a.number, a.bytes)
}

func (d *device) alloc(bytes uint64) *allocation {
	a := &allocation{number: len(d.allocs) + 1, base: d.next, bytes: bytes, data: make([]byte, bytes)}
	if bytes <= 1<<20 {
		for i := range a.data { // fresh memory is not 0: each byte is part of a NaN
			a.data[i] = 0xff
		}
	}
	d.next = (d.next + bytes + redZone + addressAlign - 1) &^ (addressAlign - 1)
	d.allocs = append(d.allocs, a)
	for _, o := range d.driver.observers {
		o.allocated(a)
	}
	return a
}

func (d *device) free(a *allocation) {
	for _, o := range d.driver.observers {
		o.freed(a)
	}
	a.freed, a.data, a.shadow = true, nil, nil
}

// span returns the allocation that contains the given bytes from at.
func (d *device) span(at driver.Ptr, bytes uint64) (a *allocation, offset uint64, err error) {
	a = d.find(uint64(at))
	if a == nil || a.size()-(uint64(at)-a.base) < bytes {
		return nil, 0, fmt.Errorf("out of bounds: %d bytes at address %#x: %s", bytes, uint64(at), d.describe(uint64(at)))
	}
	if a.guards != nil && a.guarded(uint64(at)-a.base, bytes) {
		return nil, 0, fmt.Errorf("out of bounds: %d bytes from byte %d of allocation %d, where a guard is", bytes, uint64(at)-a.base,
			a.number)
	}
	return a, uint64(at) - a.base, nil
}

// leaks lists the allocations that were never freed.
func (d *device) leaks() []string {
	var out []string
	for _, a := range d.allocs {
		if !a.freed {
			out = append(out, fmt.Sprintf("device %d: allocation %d of %d bytes was not freed", d.number, a.number, a.bytes))
		}
	}
	if len(out) > findingsPerLaunch {
		out = append(slices.Clip(out[:findingsPerLaunch]), fmt.Sprintf("device %d: %d more allocations were not freed", d.number,
			len(out)-findingsPerLaunch))
	}
	return out
}
