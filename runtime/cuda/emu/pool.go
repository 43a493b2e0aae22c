package emu

import (
	"unsafe"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Memory of devices, and of the host.

// Occupy simulates another process that uses memory of a device. It replaces earlier calls.
func (d *Driver) Occupy(n driver.Device, bytes uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.devices[n].foreign = bytes
}

// left returns the free bytes.
func (d *device) left() uint64 {
	return d.driver.options.Memory - min(d.driver.options.Memory, d.held+d.foreign)
}

// Held returns the bytes of a device in pools: those in use, and those kept for later.
func (d *Driver) Held(n driver.Device) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.devices[n].held
}

// trim returns free memory to the device, down to keep bytes in the pool.
func (p *pool) trim(keep uint64) {
	if keep = max(keep, p.used+p.freed); p.held > keep {
		p.device.held -= p.held - keep
		p.held = keep
	}
}

// settle makes the pools of a device return memory that they need not keep, as a real driver does when the host
// waits for work.
func (d *Driver) settle(v *device) {
	for _, p := range d.pools {
		if p.device == v {
			p.trim(p.keep)
		}
	}
}

func (d *Driver) CreatePool(n driver.Device, limit uint64) (driver.Pool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.work("cuMemPoolCreate"); err != nil {
		return 0, err
	}
	if n < 0 || int(n) >= len(d.devices) {
		return 0, fail("cuMemPoolCreate", driver.InvalidDevice, "device %d of %d", n, len(d.devices))
	}
	h := driver.Pool(d.handle())
	d.pools[h] = &pool{handle: h, device: d.devices[n], limit: limit}
	return h, nil
}

func (d *Driver) pool(call string, h driver.Pool) (*pool, error) {
	if _, err := d.work(call); err != nil {
		return nil, err
	}
	p := d.pools[h]
	if p == nil {
		return nil, d.misuse(call, driver.InvalidHandle, "pool %#x", uintptr(h))
	}
	return p, nil
}

func (d *Driver) DestroyPool(h driver.Pool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.pool("cuMemPoolDestroy", h)
	if err != nil {
		return err
	}
	p.trim(0)
	delete(d.pools, h)
	return nil
}

func (d *Driver) KeepPool(h driver.Pool, bytes uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.pool("cuMemPoolSetAttribute", h)
	if err == nil {
		p.keep = bytes
	}
	return err
}

func (d *Driver) TrimPool(h driver.Pool, keep uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.pool("cuMemPoolTrimTo", h)
	if err == nil {
		p.trim(keep)
	}
	return err
}

func (d *Driver) AllocFromPool(h driver.Pool, bytes uint64, s driver.Stream) (driver.Ptr, error) {
	const call = "cuMemAllocFromPoolAsync"
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.pool(call, h)
	if err != nil {
		return 0, err
	}
	q, err := d.stream(call, s)
	if err != nil {
		return 0, err
	}
	if q.graph != nil {
		q.graph.broken = true
		return 0, d.misuse(call, driver.NotPermitted, "while the stream is captured")
	}
	if bytes == 0 {
		return 0, d.misuse(call, driver.InvalidValue, "0 bytes")
	}
	v := p.device
	rounded := (bytes + 511) &^ 511
	more := max(p.held, p.used+rounded) - p.held // more than the pool has kept
	if p.limit > 0 && p.used+rounded > p.limit || more > v.left() {
		return 0, fail(call, driver.OutOfMemory, "%d bytes, %d are in use", bytes, v.used+v.foreign)
	}
	a := v.alloc(bytes)
	p.used += rounded
	p.held += more
	v.held += more
	v.used += rounded
	d.owners[a] = p
	return driver.Ptr(a.base), nil
}

func (d *Driver) Free(at driver.Ptr, s driver.Stream) error {
	const call = "cuMemFreeAsync"
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.work(call)
	if err != nil {
		return err
	}
	q, err := d.stream(call, s)
	if err != nil {
		return err
	}
	if q.graph != nil {
		q.graph.broken = true
		return d.misuse(call, driver.NotPermitted, "while the stream is captured")
	}
	a := v.find(uint64(at))
	p := d.owners[a]
	if a == nil || a.base != uint64(at) || p == nil {
		return d.misuse(call, driver.InvalidValue, "address %#x: %s", uint64(at), v.describe(uint64(at)))
	}
	delete(d.owners, a)
	p.used -= (a.bytes + 511) &^ 511
	v.used -= (a.bytes + 511) &^ 511
	p.freed += (a.bytes + 511) &^ 511
	d.enqueue(q, work{do: func() *driver.Error {
		v.free(a)
		p.freed -= (a.bytes + 511) &^ 511
		if d.pools[p.handle] != p { // destroyed earlier
			p.trim(0)
		}
		return nil
	}})
	return nil
}

func (d *Driver) AllocHost(bytes int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.work("cuMemAllocHost"); err != nil {
		return nil, err
	}
	if bytes <= 0 {
		return nil, d.misuse("cuMemAllocHost", driver.InvalidValue, "%d bytes", bytes)
	}
	b := make([]byte, bytes)
	d.hosts[unsafe.SliceData(b)] = bytes
	return b, nil
}

func (d *Driver) FreeHost(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.work("cuMemFreeHost"); err != nil {
		return err
	}
	if _, ok := d.hosts[unsafe.SliceData(b)]; !ok || len(b) == 0 {
		return d.misuse("cuMemFreeHost", driver.InvalidValue, "memory that is not the driver's")
	}
	d.awaited("cuMemFreeHost", unsafe.SliceData(b), "memory of the host")
	delete(d.hosts, unsafe.SliceData(b))
	return nil
}

// pinned returns the pinned allocation that contains b, identified by its first byte, or nil if it is not the
// driver's.
func (d *Driver) pinned(b []byte) any {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for p, n := range d.hosts {
		if from := uintptr(unsafe.Pointer(p)); at >= from && at-from+uintptr(len(b)) <= uintptr(n) {
			return p
		}
	}
	return nil
}
