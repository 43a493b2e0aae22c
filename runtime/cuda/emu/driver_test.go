package emu

import (
	"runtime"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

const addOne = `mad.wide.u32 %rd1, %r0, 4, %rd0;
ld.global.u32 %r1, [%rd1];
add.u32 %r1, %r1, 1;
st.global.u32 [%rd1], %r1;`

// one launches a kernel of 32 threads on a stream.
func (b *bench) one(f driver.Function, s driver.Stream, p driver.Ptr) {
	b.t.Helper()
	must(b.t, b.d.Launch(driver.Launch{Func: f, Grid: driver.Dim{X: 1, Y: 1, Z: 1}, Block: driver.Dim{X: 32, Y: 1, Z: 1}, Stream: s,
		Params: params(p)}))
}

// TestStreams checks the order of work on two streams that events join.
func TestStreams(t *testing.T) {
	for seed := range uint64(20) {
		b := newBench(t, Options{Seed: seed})
		f := b.load(kernelText(1, addOne))
		other, err := b.d.CreateStream()
		must(t, err)
		e, err := b.d.CreateEvent(true)
		must(t, err)
		start, err := b.d.CreateEvent(true)
		must(t, err)
		p := b.upload(make([]byte, 128))
		must(t, b.d.Record(start, b.stream))
		for range 5 {
			b.one(f, b.stream, p)
		}
		must(t, b.d.Record(e, b.stream))
		must(t, b.d.Wait(other, e))
		got := make([]byte, 128)
		must(t, b.d.CopyToHost(got, p, other))
		must(t, b.d.Synchronize(other))
		for i := range 32 {
			if got[4*i] != 5 {
				t.Errorf("seed %d: thread %d counts %d, expected 5", seed, i, got[4*i])
			}
		}
		if done, err := b.d.Query(e); !done || err != nil {
			t.Errorf("the event is not done: %v", err)
		}
		if ms, err := b.d.Elapsed(start, e); err != nil || ms <= 0 {
			t.Errorf("%v ms: %v", ms, err)
		}
		must(t, b.d.Synchronize(b.stream))
		must(t, b.d.DestroyEvent(e))
		must(t, b.d.DestroyEvent(start))
		must(t, b.d.DestroyStream(other))
		b.clean()
	}
}

// TestLateWork checks that a result which is read without waiting is not there for most seeds.
func TestLateWork(t *testing.T) {
	late := 0
	for seed := range uint64(50) {
		b := newBench(t, Options{Seed: seed})
		f := b.load(kernelText(1, addOne))
		p := b.upload(make([]byte, 128))
		got := make([]byte, 128)
		for range 3 {
			b.one(f, b.stream, p)
		}
		must(t, b.d.CopyToHost(got, p, b.stream))
		if got[0] != 3 {
			late++
		}
		b.clean()
	}
	if late < 20 {
		t.Errorf("%d of 50 seeds show that nothing waited", late)
	}
}

// TestGraph captures work of two streams and launches it three times.
func TestGraph(t *testing.T) {
	b := newBench(t, Options{})
	f := b.load(kernelText(1, addOne))
	other, err := b.d.CreateStream()
	must(t, err)
	e, err := b.d.CreateEvent(false)
	must(t, err)
	p, q := b.upload(make([]byte, 128)), b.upload(make([]byte, 128))
	must(t, b.d.BeginCapture(b.stream))
	b.one(f, b.stream, p)
	must(t, b.d.Record(e, b.stream))
	must(t, b.d.Wait(other, e))
	must(t, b.d.CopyOnDevice(q, p, 128, other))
	b.one(f, other, q)
	must(t, b.d.Record(e, other))
	must(t, b.d.Wait(b.stream, e))
	g, err := b.d.EndCapture(b.stream)
	must(t, err)
	if x := b.download(p, 128); x[0] != 0 {
		t.Errorf("captured work was done: %d", x[0])
	}
	x, err := b.d.Instantiate(g)
	must(t, err)
	must(t, b.d.DestroyGraph(g))
	for range 3 {
		must(t, b.d.LaunchGraph(x, b.stream))
	}
	if x, y := b.download(p, 128), b.download(q, 128); x[0] != 3 || y[124] != 4 {
		t.Errorf("found %d and %d, expected 3 and 4", x[0], y[124])
	}
	must(t, b.d.DestroyExec(x))
	must(t, b.d.DestroyEvent(e))
	must(t, b.d.DestroyStream(other))
	b.clean()
}

func TestPool(t *testing.T) {
	b := newBench(t, Options{Memory: 1 << 20})
	small, err := b.d.CreatePool(0, 4096)
	must(t, err)
	p, err := b.d.AllocFromPool(small, 4000, b.stream)
	must(t, err)
	if _, err := b.d.AllocFromPool(small, 1, b.stream); !driver.Is(err, driver.OutOfMemory) || driver.Sticky(err) {
		t.Errorf("beyond the limit of the pool: %v", err)
	}
	if _, err := b.d.AllocFromPool(b.pool, 1<<20, b.stream); !driver.Is(err, driver.OutOfMemory) {
		t.Errorf("beyond the memory: %v", err)
	}
	if free, total, err := b.d.MemoryInfo(); free != 1<<20-4096 || total != 1<<20 || err != nil {
		t.Errorf("%d of %d bytes are free: %v", free, total, err)
	}
	must(t, b.d.Free(p, b.stream))
	p, err = b.d.AllocFromPool(small, 4096, b.stream)
	must(t, err)
	must(t, b.d.Free(p, b.stream))
	must(t, b.d.Synchronize(b.stream))
	must(t, b.d.DestroyPool(small))
	b.clean()
}

// A pool keeps free memory until the host waits for work, and then as much as its limit.
func TestKeptMemory(t *testing.T) {
	b := newBench(t, Options{Memory: 1 << 20})
	must(t, b.d.KeepPool(b.pool, 8192))
	before := b.d.Held(0)
	held := func(when string, want uint64) {
		t.Helper()
		if now := b.d.Held(0); now != before+want {
			t.Errorf("%s: %d bytes are held, expected %d", when, now-before, want)
		}
	}
	p, err := b.d.AllocFromPool(b.pool, 64<<10, b.stream)
	must(t, err)
	held("in use", 64<<10)
	must(t, b.d.Free(p, b.stream))
	held("free", 64<<10)
	q, err := b.d.AllocFromPool(b.pool, 32<<10, b.stream)
	must(t, err)
	held("used again", 64<<10)
	must(t, b.d.Synchronize(b.stream))
	held("half of it free", 32<<10)
	must(t, b.d.Free(q, b.stream))
	must(t, b.d.Synchronize(b.stream))
	held("all of it free", 8192)
	must(t, b.d.TrimPool(b.pool, 100))
	held("trimmed", 100)
	if free, _, err := b.d.MemoryInfo(); free != 1<<20-100-before || err != nil {
		t.Errorf("%d bytes are free: %v", free, err)
	}
	b.clean()
}

// TestMisuse checks that calls against the rules are found.
func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(b *bench, p driver.Ptr)
	}{
		{"use after free", "out of bounds", func(b *bench, p driver.Ptr) {
			b.d.Free(p, b.stream)
			b.ptrs = nil
			b.launch(b.load(kernelText(1, addOne)), 1, 32, p)
		}},
		{"free twice", "cuMemFreeAsync: invalid value", func(b *bench, p driver.Ptr) {
			b.d.Free(p, b.stream)
			b.d.Free(p, b.stream)
			b.ptrs = nil
		}},
		{"copy out of bounds", "cuMemcpyHtoDAsync: invalid value", func(b *bench, p driver.Ptr) {
			b.d.CopyToDevice(p+100, make([]byte, 29), b.stream)
		}},
		{"synchronising a capture", "while the stream is captured", func(b *bench, p driver.Ptr) {
			b.d.BeginCapture(b.stream)
			b.d.Synchronize(b.stream)
			b.d.EndCapture(b.stream)
		}},
		{"allocating in a capture", "while the stream is captured", func(b *bench, p driver.Ptr) {
			b.d.BeginCapture(b.stream)
			b.d.AllocFromPool(b.pool, 8, b.stream)
			if _, err := b.d.EndCapture(b.stream); err == nil {
				b.t.Error("the capture goes on")
			}
		}},
		{"parameters", "cuLaunchKernel: invalid value (CUDA error 1): kernel k: 0 bytes of parameters", func(b *bench, p driver.Ptr) {
			b.d.Launch(driver.Launch{Func: b.load(kernelText(1, addOne)), Grid: driver.Dim{X: 1, Y: 1, Z: 1},
				Block: driver.Dim{X: 1, Y: 1, Z: 1}, Stream: b.stream})
		}},
		{"shared memory", "bytes of dynamic shared memory", func(b *bench, p driver.Ptr) {
			b.d.Launch(driver.Launch{Func: b.load(kernelText(1, addOne)), Grid: driver.Dim{X: 1, Y: 1, Z: 1}, Shared: 64 << 10,
				Block: driver.Dim{X: 1, Y: 1, Z: 1}, Stream: b.stream, Params: params(p)})
		}},
		{"leaked memory", "allocation 1 of 128 bytes was not freed", func(b *bench, p driver.Ptr) { b.ptrs = nil }},
		{"leaked module", "1 modules were not given back", func(b *bench, p driver.Ptr) {
			b.load(kernelText(1, addOne))
			b.mods = nil
		}},
		{"work that nothing waited for", "nothing waited for", func(b *bench, p driver.Ptr) {
			s, _ := b.d.CreateStream()
			for range 50 {
				b.d.Fill(p, 1, 128, b.stream)
			}
			b.d.Close()
			b.d.DestroyStream(s)
		}},
		{"memory of the host that is still used", "cuMemFreeHost: memory of the host that work of stream 0 still uses",
			func(b *bench, p driver.Ptr) {
				h, _ := b.d.AllocHost(64)
				for range 50 {
					b.d.CopyToHost(h[32:], p, b.stream)
				}
				b.d.FreeHost(h)
			}},
		{"a module that is still used", "cuModuleUnload: a module that work of stream 0 still uses", func(b *bench, p driver.Ptr) {
			f := b.load(kernelText(1, addOne))
			for range 50 {
				b.one(f, b.stream, p)
			}
			b.d.UnloadModule(b.mods[0])
			b.mods = nil
		}},
		{"stale handle", "cuStreamSynchronize: invalid handle", func(b *bench, p driver.Ptr) { b.d.Synchronize(77) }},
	} {
		b := newBench(t, Options{})
		c.do(b, b.upload(make([]byte, 128)))
		var all []string
		for _, f := range b.close() {
			all = append(all, f.String())
		}
		if !strings.Contains(strings.Join(all, "\n"), c.want) {
			t.Errorf("%s: found %q, expected %q", c.name, all, c.want)
		}
	}
}

// TestCards checks refusals that follow from the card and the driver.
func TestCards(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want driver.Code
	}{
		{Options{}, driver.Success},
		{Options{Attributes: map[driver.Attribute]int{driver.ComputeMajor: 7, driver.ComputeMinor: 5}}, driver.NoBinary},
		{Options{Version: 10020}, driver.UnsupportedPTX},
		{Options{Version: 11000}, driver.Success},
	} {
		b := newBench(t, c.o)
		m, _, err := b.d.LoadModule([]byte(kernelText(0, "") + "\x00"))
		if c.want == driver.Success && err != nil || c.want != driver.Success && !driver.Is(err, c.want) {
			t.Errorf("%+v: %v, expected %v", c.o, err, c.want)
		}
		if err == nil {
			must(t, b.d.UnloadModule(m))
		}
		b.clean()
	}
}

// TestFail lets each call fail in turn.
func TestFail(t *testing.T) {
	calls := 0
	d := New(Options{Fail: func(call string, n int) driver.Code {
		if n == 2 {
			return driver.DeviceUnavailable
		}
		calls = n
		return driver.Success
	}})
	must(t, d.Init())
	if _, err := d.DeviceCount(); !driver.Is(err, driver.DeviceUnavailable) {
		t.Errorf("found %v", err)
	}
	if _, err := d.DeviceCount(); err != nil || calls != 3 {
		t.Errorf("call %d: %v", calls, err)
	}
}

// TestDevices runs two devices from two threads.
func TestDevices(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads are told apart on Linux alone")
	}
	d := New(Options{Devices: 2})
	must(t, d.Init())
	turn := [2]chan bool{make(chan bool), make(chan bool)}
	done := make(chan error, 2)
	for n := range 2 {
		go func() {
			runtime.LockOSThread()
			c, err := d.RetainContext(driver.Device(n))
			if err == nil {
				err = d.SetContext(c)
			}
			close(turn[n])
			<-turn[1-n]
			var s driver.Stream
			if err == nil {
				s, err = d.CreateStream()
			}
			if err == nil {
				d.mu.Lock()
				on := d.streams[s].device.number
				d.mu.Unlock()
				if on != driver.Device(n) {
					t.Errorf("the stream of thread %d is on device %d", n, on)
				}
			}
			if err == nil {
				err = d.DestroyStream(s)
			}
			if err == nil {
				err = d.ReleaseContext(driver.Device(n))
			}
			done <- err
		}()
	}
	must(t, <-done)
	must(t, <-done)
	for _, f := range d.Close() {
		t.Error(f)
	}
}

// TestFaultBeforeEvent checks that who waits for an event behind a fault, on the stream of the kernel or on another one, is told
// of it.
func TestFaultBeforeEvent(t *testing.T) {
	for _, other := range []bool{false, true} {
		for seed := range uint64(20) {
			b := newBench(t, Options{Seed: seed})
			f := b.load(kernelText(1, "trap;"))
			p := b.upload(make([]byte, 128))
			e, err := b.d.CreateEvent(false)
			must(t, err)
			s, err := b.d.CreateStream()
			must(t, err)
			b.one(f, b.stream, p)
			// The fault may be there at once. From then on each call fails.
			err = b.d.Record(e, b.stream)
			if err == nil && other {
				err = b.d.Wait(s, e)
				if err == nil {
					err = b.d.Synchronize(s)
				}
			} else if err == nil {
				err = b.d.SynchronizeEvent(e)
			}
			if !driver.Is(err, driver.IllegalInstruction) {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
}
