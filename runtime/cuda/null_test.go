package cuda_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// null is a driver without a card. Memory is the host's, and a kernel is a Go function that is found by the name of
// its entry; without one it does nothing. It does all work at once, tracks the memory and handles that are not
// freed, and refuses calls on threads without a context, of unknown handles, and outside allocated memory.
type null struct {
	kernels  map[string]func(m *null, params []byte, grid driver.Dim) error
	capacity uint64 // of the device, in bytes; 0: no bound
	major    int    // of the compute capability
	version  int

	mu       sync.Mutex
	contexts map[int]driver.Context // by thread
	retained int
	next     uintptr
	live     map[uintptr]string // handles and their kinds
	memory   []region           // by address
	used     uint64
	hosts    map[*byte]int
	names    map[driver.Module]string
	entries  map[driver.Function]string
	capture  map[driver.Stream][]func() error
	graphs   map[uintptr][]func() error
	events   map[driver.Event]int // the call that recorded it
	calls    []string
	done     map[string]int // work of streams by its call, also as part of graphs
	last     []string       // the calls that the last graph contains
	lost     error

	failAt   int         // the number of the call that fails, from 1
	failWith driver.Code // its error
}

type region struct {
	at   driver.Ptr
	data []byte
}

func newNull() *null {
	return &null{done: map[string]int{}, major: 9, version: 12040, contexts: map[int]driver.Context{}, live: map[uintptr]string{}, next: 1 << 8,
		hosts: map[*byte]int{}, names: map[driver.Module]string{}, entries: map[driver.Function]string{},
		capture: map[driver.Stream][]func() error{}, graphs: map[uintptr][]func() error{},
		events: map[driver.Event]int{}, kernels: map[string]func(*null, []byte, driver.Dim) error{}}
}

func fail(call string, c driver.Code, format string, args ...any) error {
	return &driver.Error{Call: call, Code: c, Detail: fmt.Sprintf(format, args...)}
}

// leaks lists memory and handles that were not given back.
func (n *null) leaks() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for h, kind := range n.live {
		all = append(all, fmt.Sprintf("%s %d", kind, h))
	}
	for _, r := range n.memory {
		all = append(all, fmt.Sprintf("%d bytes", len(r.data)))
	}
	for range n.hosts {
		all = append(all, "memory of the host")
	}
	if n.retained != 0 {
		all = append(all, fmt.Sprintf("%d contexts", n.retained))
	}
	slices.Sort(all)
	return all
}

// kept returns the number of pieces of memory of a size.
func (n *null) kept(bytes int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := 0
	for _, r := range n.memory {
		if len(r.data) == bytes {
			k++
		}
	}
	return k
}

// count returns the number of calls of a function so far.
func (n *null) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := 0
	for _, c := range n.calls {
		if c == name {
			k++
		}
	}
	return k
}

// ran returns how often the last graph did a thing.
func (n *null) ran(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := 0
	for _, c := range n.last {
		if c == name {
			k++
		}
	}
	return k
}

// in notes a call that needs a context. The caller unlocks.
func (n *null) in(call string) error {
	n.mu.Lock()
	if err := n.called(call); err != nil {
		return err
	}
	if n.contexts[threadID()] == 0 {
		return fail(call, driver.InvalidContext, "no context on this thread")
	}
	return nil
}

// called counts a call, and fails it if the test wants that. Sticky errors stay.
func (n *null) called(call string) error {
	n.calls = append(n.calls, call)
	if n.lost == nil && len(n.calls) == n.failAt {
		err := fail(call, n.failWith, "on purpose")
		if driver.Sticky(err) {
			n.lost = err
		}
		return err
	}
	return n.lost
}

func (n *null) handle(kind string) uintptr {
	n.next++
	n.live[n.next] = kind
	return n.next
}

func (n *null) has(call, kind string, h uintptr) error {
	if n.live[h] != kind {
		return fail(call, driver.InvalidHandle, "%s %d", kind, h)
	}
	return nil
}

// drop ends a handle. As with the real driver, it does so although it may return the error of other work.
func (n *null) drop(call, kind string, h uintptr) error {
	err := n.in(call)
	defer n.mu.Unlock()
	if missing := n.has(call, kind, h); missing != nil {
		return missing
	}
	delete(n.live, h)
	return err
}

// bytes returns memory of the device.
func (n *null) bytes(call string, at driver.Ptr, size uint64) ([]byte, error) {
	for _, r := range n.memory {
		if at >= r.at && uint64(at-r.at)+size <= uint64(len(r.data)) {
			return r.data[at-r.at:][:size], nil
		}
	}
	return nil, fail(call, driver.IllegalAddress, "%d bytes at %#x", size, uint64(at))
}

// pointer reads parameter i of a kernel whose parameters are of 8 bytes.
func pointer(params []byte, i int) driver.Ptr {
	return driver.Ptr(binary.LittleEndian.Uint64(params[8*i:]))
}

// outside notes a call that needs no context.
func (n *null) outside(call string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.called(call)
}

func (n *null) Init() error               { return n.outside("Init") }
func (n *null) Version() (int, error)     { return n.version, n.outside("Version") }
func (n *null) DeviceCount() (int, error) { return 1, n.outside("DeviceCount") }

func (n *null) DeviceName(driver.Device) (string, error) {
	return "null", n.outside("DeviceName")
}
func (n *null) DeviceMemory(driver.Device) (uint64, error) {
	return n.capacity, n.outside("DeviceMemory")
}
func (n *null) DeviceUUID(d driver.Device) (u [16]byte, _ error) { return u, n.outside("DeviceUUID") }
func (n *null) DeviceAttribute(_ driver.Device, a driver.Attribute) (int, error) {
	if err := n.outside("DeviceAttribute"); err != nil {
		return 0, err
	}
	switch a {
	case driver.ComputeMajor:
		return n.major, nil
	case driver.MemoryPools:
		return 1, nil
	}
	return 0, nil
}

func (n *null) RetainContext(driver.Device) (driver.Context, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.called("RetainContext"); err != nil {
		return 0, err
	}
	n.retained++
	return 7, nil
}

func (n *null) ReleaseContext(driver.Device) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.retained--
	return n.called("ReleaseContext")
}

func (n *null) SetContext(c driver.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.called("SetContext"); err != nil {
		return err
	}
	n.contexts[threadID()] = c
	return nil
}

func (n *null) MemoryInfo() (free, total uint64, err error) {
	err = n.in("MemoryInfo")
	defer n.mu.Unlock()
	return n.capacity - n.used, n.capacity, err
}

func (n *null) LoadModule(image []byte) (driver.Module, string, error) {
	err := n.in("LoadModule")
	defer n.mu.Unlock()
	if err != nil {
		return 0, "", err
	}
	_, name, ok := strings.Cut(string(image), ".entry ")
	if !ok || image[len(image)-1] != 0 {
		return 0, "line 1: no entry", fail("LoadModule", driver.InvalidPTX, "")
	}
	m := driver.Module(n.handle("module"))
	n.names[m], _, _ = strings.Cut(name, "(")
	n.names[m] = strings.TrimSpace(n.names[m])
	return m, "", nil
}
func (n *null) UnloadModule(m driver.Module) error {
	return n.drop("UnloadModule", "module", uintptr(m))
}

func (n *null) GetFunction(m driver.Module, name string) (driver.Function, error) {
	err := n.in("GetFunction")
	defer n.mu.Unlock()
	if err == nil && n.names[m] != name {
		err = fail("GetFunction", driver.NotFound, "%s", name)
	}
	if err != nil {
		return 0, err
	}
	n.next++
	f := driver.Function(n.next)
	n.entries[f] = name
	return f, nil
}

func (n *null) FunctionAttribute(driver.Function, driver.FunctionAttribute) (int, error) {
	return 0, nil
}

func (n *null) SetFunctionAttribute(driver.Function, driver.FunctionAttribute, int) error {
	err := n.in("SetFunctionAttribute")
	defer n.mu.Unlock()
	return err
}
func (n *null) Occupancy(driver.Function, int, int) (int, error) { return 1, nil }

func (n *null) CreatePool(driver.Device, uint64) (driver.Pool, error) {
	err := n.in("CreatePool")
	defer n.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return driver.Pool(n.handle("pool")), nil
}
func (n *null) DestroyPool(p driver.Pool) error { return n.drop("DestroyPool", "pool", uintptr(p)) }

func (n *null) KeepPool(driver.Pool, uint64) error {
	err := n.in("KeepPool")
	defer n.mu.Unlock()
	return err
}

func (n *null) TrimPool(driver.Pool, uint64) error {
	err := n.in("TrimPool")
	defer n.mu.Unlock()
	return err
}

func (n *null) AllocFromPool(p driver.Pool, bytes uint64, s driver.Stream) (driver.Ptr, error) {
	err := n.in("AllocFromPool")
	defer n.mu.Unlock()
	switch {
	case err != nil:
	case n.capacity > 0 && n.used+bytes > n.capacity:
		err = fail("AllocFromPool", driver.OutOfMemory, "")
	default:
		if err = n.has("AllocFromPool", "pool", uintptr(p)); err == nil {
			err = n.has("AllocFromPool", "stream", uintptr(s))
		}
	}
	if err != nil {
		return 0, err
	}
	at := driver.Ptr(1 << 30)
	if k := len(n.memory); k > 0 {
		at = n.memory[k-1].at + driver.Ptr(len(n.memory[k-1].data))
	}
	at = (at + 4095) / 4096 * 4096
	data := make([]byte, bytes)
	for i := range data {
		data[i] = 0xff // memory that is not written reads as NaN
	}
	n.memory = append(n.memory, region{at, data})
	n.used += bytes
	return at, nil
}

func (n *null) Free(a driver.Ptr, s driver.Stream) error {
	err := n.in("Free")
	defer n.mu.Unlock()
	if missing := n.has("Free", "stream", uintptr(s)); missing != nil {
		return missing
	}
	i := slices.IndexFunc(n.memory, func(r region) bool { return r.at == a })
	if i < 0 {
		return fail("Free", driver.InvalidValue, "%#x", uint64(a))
	}
	n.used -= uint64(len(n.memory[i].data))
	n.memory = slices.Delete(n.memory, i, i+1)
	return err
}

func (n *null) AllocHost(bytes int) ([]byte, error) {
	err := n.in("AllocHost")
	defer n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	b := make([]byte, bytes)
	for i := range b {
		b[i] = 0xff
	}
	n.hosts[&b[0]] = bytes
	return b, nil
}

func (n *null) FreeHost(b []byte) error {
	err := n.in("FreeHost")
	defer n.mu.Unlock()
	if n.hosts[&b[0]] == 0 {
		return fail("FreeHost", driver.InvalidValue, "")
	}
	delete(n.hosts, &b[0])
	return err
}

// pinned reports whether the device reaches b.
func (n *null) pinned(call string, b []byte) error {
	for p, size := range n.hosts {
		if within(p, size, b) {
			return nil
		}
	}
	return fail(call, driver.InvalidValue, "memory of the host that was not allocated by the driver")
}

// queue does work of a stream at once, or keeps it for a graph.
func (n *null) queue(call string, s driver.Stream, f func() error) error {
	err := n.in(call)
	defer n.mu.Unlock()
	if err == nil {
		err = n.has(call, "stream", uintptr(s))
	}
	if err != nil {
		return err
	}
	do := func() error {
		n.done[call]++
		return f()
	}
	if list, ok := n.capture[s]; ok {
		n.capture[s] = append(list, func() error {
			n.last = append(n.last, call)
			return do()
		})
		return nil
	}
	return do()
}

func (n *null) CopyToDevice(dst driver.Ptr, src []byte, s driver.Stream) error {
	return n.queue("CopyToDevice", s, func() error {
		b, err := n.bytes("CopyToDevice", dst, uint64(len(src)))
		if err == nil {
			err = n.pinned("CopyToDevice", src)
		}
		copy(b, src)
		return err
	})
}

func (n *null) CopyToHost(dst []byte, src driver.Ptr, s driver.Stream) error {
	return n.queue("CopyToHost", s, func() error {
		b, err := n.bytes("CopyToHost", src, uint64(len(dst)))
		if err == nil {
			err = n.pinned("CopyToHost", dst)
		}
		copy(dst, b)
		return err
	})
}

func (n *null) CopyOnDevice(dst, src driver.Ptr, bytes uint64, s driver.Stream) error {
	return n.queue("CopyOnDevice", s, func() error {
		a, err := n.bytes("CopyOnDevice", dst, bytes)
		if err != nil {
			return err
		}
		b, err := n.bytes("CopyOnDevice", src, bytes)
		copy(a, b)
		return err
	})
}

func (n *null) Fill(dst driver.Ptr, value byte, bytes uint64, s driver.Stream) error {
	return n.queue("Fill", s, func() error {
		b, err := n.bytes("Fill", dst, bytes)
		for i := range b {
			b[i] = value
		}
		return err
	})
}

func (n *null) CreateStream() (driver.Stream, error) {
	err := n.in("CreateStream")
	defer n.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return driver.Stream(n.handle("stream")), nil
}

func (n *null) DestroyStream(s driver.Stream) error {
	return n.drop("DestroyStream", "stream", uintptr(s))
}

func (n *null) Synchronize(s driver.Stream) error {
	err := n.in("Synchronize")
	defer n.mu.Unlock()
	if err == nil {
		err = n.has("Synchronize", "stream", uintptr(s))
	}
	return err
}

func (n *null) Wait(s driver.Stream, _ driver.Event) error {
	return n.queue("Wait", s, func() error { return nil })
}

func (n *null) CreateEvent(bool) (driver.Event, error) {
	err := n.in("CreateEvent")
	defer n.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return driver.Event(n.handle("event")), nil
}
func (n *null) DestroyEvent(e driver.Event) error {
	return n.drop("DestroyEvent", "event", uintptr(e))
}

func (n *null) Record(e driver.Event, s driver.Stream) error {
	return n.queue("Record", s, func() error {
		n.events[e] = len(n.calls)
		return nil
	})
}
func (n *null) Query(driver.Event) (bool, error)    { return true, nil }
func (n *null) SynchronizeEvent(driver.Event) error { return nil }

// Elapsed counts calls as milliseconds.
func (n *null) Elapsed(from, to driver.Event) (float32, error) {
	err := n.in("Elapsed")
	defer n.mu.Unlock()
	return float32(n.events[to] - n.events[from]), err
}

func (n *null) Launch(l driver.Launch) error {
	l.Params = slices.Clone(l.Params)
	return n.queue("Launch", l.Stream, func() error {
		name, ok := n.entries[l.Func]
		if !ok {
			return fail("Launch", driver.InvalidHandle, "function %d", l.Func)
		}
		if f := n.kernels[name]; f != nil {
			err := f(n, l.Params, l.Grid)
			if driver.Sticky(err) {
				n.lost = err
			}
			return err
		}
		return nil
	})
}

func (n *null) BeginCapture(s driver.Stream) error {
	err := n.in("BeginCapture")
	defer n.mu.Unlock()
	if err == nil {
		n.capture[s] = []func() error{}
	}
	return err
}

func (n *null) EndCapture(s driver.Stream) (driver.Graph, error) {
	err := n.in("EndCapture")
	defer n.mu.Unlock()
	list := n.capture[s]
	delete(n.capture, s)
	if err != nil {
		return 0, err
	}
	g := n.handle("graph")
	n.graphs[g] = list
	return driver.Graph(g), nil
}

func (n *null) Instantiate(g driver.Graph) (driver.Exec, error) {
	err := n.in("Instantiate")
	defer n.mu.Unlock()
	if err != nil {
		return 0, err
	}
	x := n.handle("exec")
	n.graphs[x] = n.graphs[uintptr(g)]
	return driver.Exec(x), nil
}

func (n *null) LaunchGraph(x driver.Exec, _ driver.Stream) error {
	err := n.in("LaunchGraph")
	defer n.mu.Unlock()
	if err == nil {
		err = n.has("LaunchGraph", "exec", uintptr(x))
	}
	n.last = nil
	for _, f := range n.graphs[uintptr(x)] {
		if err != nil {
			break
		}
		err = f()
	}
	return err
}
func (n *null) DestroyGraph(g driver.Graph) error { return n.drop("DestroyGraph", "graph", uintptr(g)) }
func (n *null) DestroyExec(x driver.Exec) error   { return n.drop("DestroyExec", "exec", uintptr(x)) }
