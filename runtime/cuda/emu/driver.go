package emu

import (
	"fmt"
	"sync"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Options are properties of the driver and the cards. The zero value is one card like an H100.
type Options struct {
	Devices int    // 0 means 1
	Seed    uint64 // seeds the order in which warps run, and the errors of approximate functions
	// Memory is the memory of each device in bytes; 0 means 80 GB. The host provides it as it is used.
	Memory uint64
	// Attributes override attributes of the card.
	Attributes map[driver.Attribute]int
	// Version is the CUDA version that the driver supports; 0 means 12080.
	Version int
	// Instructions is the maximum number of warp instructions that a launch executes; 0 means 20 billion.
	Instructions int64
	// MatrixBits is the number of bits below float32's last that tensor cores keep while they add products; 0 means
	// 1, as on the A100, and negative means none. MatrixBlock is the number of products that they add at once; 0
	// means 4 for TF32 and 8 for 16 bits.
	MatrixBits, MatrixBlock int
	// Unchecked turns off the counters, and all checks but bounds, alignment and barriers.
	Unchecked bool
	// Fail is called before each call, and can make it fail by returning a code other than Success. n counts the
	// calls from 1. A sticky code ends all devices in use.
	Fail func(call string, n int) driver.Code
}

// Driver is an emulated CUDA driver. It implements driver.Driver.
type Driver struct {
	mu        sync.Mutex
	options   Options
	devices   []*device
	started   bool
	current   map[int]driver.Context // by thread
	handles   uintptr
	modules   map[driver.Module]*loaded
	functions map[driver.Function]*function
	pools     map[driver.Pool]*pool
	streams   map[driver.Stream]*stream
	events    map[driver.Event]*event
	graphs    map[driver.Graph]*graph
	execs     map[driver.Exec]*graph
	hosts     map[*byte]int
	owners    map[*allocation]*pool
	observers []observer
	watch     *watch // one of the observers; nil with Unchecked
	findings  []Finding
	host      clock // covers the work that the host has waited for
	made      int   // number of streams created
	calls     int
	launches  int
	clock     int64 // number of warp instructions executed
	rand      random
}

type loaded struct {
	device    *device
	kernels   []*kernel
	functions map[string]driver.Function
}

type function struct {
	module  *loaded
	kernel  *kernel
	dynamic int // maximum shared memory that a launch may request in addition to the declared one
}

type pool struct {
	handle driver.Pool
	device *device
	limit  uint64
	used   uint64
	held   uint64 // used, and kept for later
	freed  uint64 // by work that is not done yet
	keep   uint64 // bytes that it may keep when the host has waited
}

// stream is work that is done in order, when something waits for it or the seed decides so.
type stream struct {
	device *device
	number int   // among the driver's streams
	clock  clock // covers the completed work
	work   []work
	graph  *graph // the graph that it captures into
	origin bool   // whether the capture started here
}

// work is one entry in a stream.
type work struct {
	do   func() *driver.Error // nil does nothing
	wait *mark                // must be done first, or nil
	mark *mark                // completed by it, or nil
	host clock                // the host's clock at the call
	uses any                  // what must exist until then: a kernel's module, or host memory (*byte)
}

// mark is a position in the work of a stream.
type mark struct {
	stream *stream
	done   bool
	clock  int64
	known  clock
}

type event struct {
	timed bool
	last  *mark
	graph *graph // the graph, if it was recorded during a capture
}

type graph struct {
	work    []work
	members []*stream
	broken  bool
}

var _ driver.Driver = (*Driver)(nil)

// New returns a driver.
func New(o Options) *Driver {
	if o.Devices == 0 {
		o.Devices = 1
	}
	if o.Memory == 0 {
		o.Memory = 80 << 30
	}
	if o.Version == 0 {
		o.Version = 12080
	}
	if o.Instructions == 0 {
		o.Instructions = 20e9
	}
	d := &Driver{options: o, modules: map[driver.Module]*loaded{}, functions: map[driver.Function]*function{},
		pools: map[driver.Pool]*pool{}, streams: map[driver.Stream]*stream{}, events: map[driver.Event]*event{},
		graphs: map[driver.Graph]*graph{}, execs: map[driver.Exec]*graph{}, hosts: map[*byte]int{},
		owners: map[*allocation]*pool{}, current: map[int]driver.Context{}, handles: 0x1000, rand: random{o.Seed ^ 0x5eed}}
	for i := range o.Devices {
		d.devices = append(d.devices, &device{driver: d, number: driver.Device(i), next: firstAddress + uint64(i)*deviceRange,
			context: driver.Context(0xc0 + i)})
	}
	if !o.Unchecked {
		d.watch = &watch{}
		d.watch.tell = d.find
		d.watch.doubtful = noSegment
		d.observers = append(d.observers, d.watch)
	}
	return d
}

// Findings returns the findings so far. Each launch keeps only its first ones.
func (d *Driver) Findings() []Finding {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Finding(nil), d.findings...)
}

// Close executes the remaining work, and reports the objects that were not freed as findings.
func (d *Driver) Close() []Finding {
	d.mu.Lock()
	for _, v := range d.devices {
		if v.failed != nil { // nothing can be freed any more
			d.mu.Unlock()
			return d.Findings()
		}
	}
	left := 0
	for _, s := range d.streams {
		left += len(s.work)
	}
	if left > 0 {
		d.find("streams were left with %d pieces of work that nothing waited for", left)
	}
	for _, v := range d.devices {
		for _, l := range v.leaks() {
			d.find("%s", l)
		}
		if v.retains > 0 {
			d.find("device %d: its context was not released", v.number)
		}
	}
	for _, o := range [...]struct {
		n    int
		name string
	}{{len(d.modules), "modules"}, {len(d.pools), "pools"}, {len(d.streams), "streams"}, {len(d.events), "events"},
		{len(d.graphs), "graphs"}, {len(d.execs), "executable graphs"}, {len(d.hosts), "host allocations"}} {
		if o.n > 0 {
			d.find("%d %s were not given back", o.n, o.name)
		}
	}
	d.mu.Unlock()
	return d.Findings()
}

func (d *Driver) find(format string, args ...any) {
	d.findings = append(d.findings, Finding{What: fmt.Sprintf(format, args...)})
}

// fail returns the error of a call. A misuse is also a finding.
func fail(call string, code driver.Code, format string, args ...any) *driver.Error {
	return &driver.Error{Call: call, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func (d *Driver) misuse(call string, code driver.Code, format string, args ...any) *driver.Error {
	e := fail(call, code, format, args...)
	d.find("%v", e)
	return e
}

// enter starts a call that needs no context.
func (d *Driver) enter(call string) error {
	d.calls++
	if f := d.options.Fail; f != nil {
		if c := f(call, d.calls); c != driver.Success {
			err := fail(call, c, "fails on purpose, as call %d", d.calls)
			for _, v := range d.devices {
				if driver.Sticky(err) && v.retains > 0 && v.failed == nil {
					v.failed = err
				}
			}
			return err
		}
	}
	if !d.started && call != "cuInit" {
		return d.misuse(call, driver.NotInitialized, "cuInit was not called")
	}
	return nil
}

// work starts a call that needs a context, and returns its device.
func (d *Driver) work(call string) (*device, error) {
	if err := d.enter(call); err != nil {
		return nil, err
	}
	c := d.current[thread()]
	if len(d.devices) == 1 { // goroutines of tests move between threads
		for _, c = range d.current {
			break
		}
	}
	for _, v := range d.devices {
		if v.context == c && c != 0 {
			if v.retains == 0 {
				return nil, d.misuse(call, driver.InvalidContext, "the context was released")
			}
			if v.failed != nil {
				return nil, &driver.Error{Call: call, Code: v.failed.Code, Detail: v.failed.Detail}
			}
			return v, nil
		}
	}
	return nil, d.misuse(call, driver.InvalidContext, "no context is current on this thread")
}

func (d *Driver) handle() uintptr {
	d.handles += 16
	return d.handles
}

func (d *Driver) Init() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter("cuInit"); err != nil {
		return err
	}
	d.started = true
	return nil
}

func (d *Driver) Version() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.options.Version, d.enter("cuDriverGetVersion")
}

func (d *Driver) DeviceCount() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.devices), d.enter("cuDeviceGetCount")
}

func (d *Driver) device(call string, n driver.Device) (*device, error) {
	if err := d.enter(call); err != nil {
		return nil, err
	}
	if n < 0 || int(n) >= len(d.devices) {
		return nil, fail(call, driver.InvalidDevice, "device %d of %d", n, len(d.devices))
	}
	return d.devices[n], nil
}

func (d *Driver) DeviceName(n driver.Device) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.device("cuDeviceGetName", n)
	return "emulated card", err
}

func (d *Driver) DeviceMemory(n driver.Device) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.device("cuDeviceTotalMem", n)
	return d.options.Memory, err
}

// attributes are the attributes of an H100 (SXM).
var attributes = map[driver.Attribute]int{driver.MaxThreadsPerBlock: 1024, driver.MaxSharedPerBlock: 48 << 10, driver.WarpSize: 32,
	driver.MaxRegistersPerBlock: 65536, driver.ClockRate: 1980000, driver.Multiprocessors: 132, driver.ComputeMode: 0,
	driver.MemoryClockRate: 2619000, driver.MemoryBusWidth: 5120, driver.L2Bytes: 50 << 20, driver.MaxThreadsPerSM: 2048,
	driver.ComputeMajor: 9, driver.ComputeMinor: 0, driver.MaxSharedPerSM: 228 << 10, driver.MaxSharedPerBlockFull: 227 << 10,
	driver.MemoryPools: 1}

func (d *Driver) attribute(a driver.Attribute) (int, bool) {
	if x, ok := d.options.Attributes[a]; ok {
		return x, true
	}
	x, ok := attributes[a]
	return x, ok
}

func (d *Driver) DeviceAttribute(n driver.Device, a driver.Attribute) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.device("cuDeviceGetAttribute", n); err != nil {
		return 0, err
	}
	x, ok := d.attribute(a)
	if !ok {
		return 0, fail("cuDeviceGetAttribute", driver.InvalidValue, "attribute %d", a)
	}
	return x, nil
}

func (d *Driver) DeviceUUID(n driver.Device) ([16]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.device("cuDeviceGetUuid", n)
	return [16]byte{'e', 'm', 'u', 'l', 'a', 't', 'e', 'd', 15: byte(n)}, err
}

func (d *Driver) RetainContext(n driver.Device) (driver.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.device("cuDevicePrimaryCtxRetain", n)
	if err != nil {
		return 0, err
	}
	v.retains++
	return v.context, nil
}

func (d *Driver) ReleaseContext(n driver.Device) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.device("cuDevicePrimaryCtxRelease", n)
	if err != nil {
		return err
	}
	if v.retains == 0 {
		return d.misuse("cuDevicePrimaryCtxRelease", driver.InvalidContext, "device %d has none", n)
	}
	v.retains--
	return nil
}

// SetContext makes c current on the calling thread. If the driver has only one device, it does so for all threads.
func (d *Driver) SetContext(c driver.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter("cuCtxSetCurrent"); err != nil {
		return err
	}
	for _, v := range d.devices {
		if v.context == c && v.retains > 0 || c == 0 {
			if len(d.devices) == 1 {
				clear(d.current)
			}
			d.current[thread()] = c
			return nil
		}
	}
	return d.misuse("cuCtxSetCurrent", driver.InvalidContext, "context %#x", uintptr(c))
}

func (d *Driver) MemoryInfo() (free, total uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.work("cuMemGetInfo")
	if err != nil {
		return 0, 0, err
	}
	return v.left(), d.options.Memory, nil
}
