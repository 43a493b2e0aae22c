//go:build cuda && linux && (amd64 || arm64)

package libcuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// fake is the library of testdata/fake.c. The tests of this package share it: it has one log.
type fake struct {
	t *testing.T
	*library
}

// build compiles testdata/fake.c.
func build(t *testing.T, name string, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		if cc, err = exec.LookPath("cc"); err != nil {
			t.Skip("no C compiler for testdata/fake.c")
		}
	}
	path := filepath.Join(t.TempDir(), name)
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-fvisibility=hidden", "-o", path}, flags...)
	if out, err := exec.Command(cc, append(args, "testdata/fake.c")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func newFake(t *testing.T, flags ...string) *fake {
	t.Helper()
	path := build(t, "libfake.so", flags...)
	d, err := open([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t, d.(*library)}
	if got := f.log(); got != "cuInit(0)\ncuDriverGetVersion( )\ncuDeviceGetCount( )\n" {
		t.Errorf("open called\n%s", got)
	}
	return f
}

func (f *fake) function(name string) uintptr {
	a, err := find(f.handle, name)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// log returns the calls since the last one.
func (f *fake) log() string {
	b := make([]byte, 1<<16)
	purego.SyscallN(f.function("fake_take"), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return cstring(&b[0], len(b))
}

// fail lets each call of a function, by the library's name, have a result.
func (f *fake) fail(name string, c driver.Code) {
	b := append([]byte(name), 0)
	purego.SyscallN(f.function("fake_fail"), uintptr(unsafe.Pointer(&b[0])), uintptr(c))
}

func (f *fake) machine(version, devices, major, pools int) {
	purego.SyscallN(f.function("fake_machine"), uintptr(version), uintptr(devices), uintptr(major), uintptr(pools))
}

// method is a call of a method.
type method struct {
	name string
	call func(d driver.Driver) (any, error)
	sym  symbol
	log  string // of the library, without its name
	want any    // as fmt prints it
}

const big = 0x7fd200000001 // an address of over 32 bits

// methods hold a call of each method of driver.Driver, with arguments that differ from one another.
var methods = []method{
	{"Init", func(d driver.Driver) (any, error) { return nil, d.Init() }, cuInit, "0", nil},
	{"Version", func(d driver.Driver) (any, error) { return one(d.Version()) }, cuDriverGetVersion, " ", 12040},
	{"DeviceCount", func(d driver.Driver) (any, error) { return one(d.DeviceCount()) }, cuDeviceGetCount, " ", 2},
	{"DeviceName", func(d driver.Driver) (any, error) { return one(d.DeviceName(1)) }, cuDeviceGetName, "256, 1", "Fake 1"},
	{"DeviceMemory", func(d driver.Driver) (any, error) { return one(d.DeviceMemory(1)) }, cuDeviceTotalMem, "1",
		0x1400000000},
	{"DeviceAttribute", func(d driver.Driver) (any, error) { return one(d.DeviceAttribute(1, driver.Multiprocessors)) },
		cuDeviceGetAttribute, "16, 1", -21},
	{"DeviceUUID", func(d driver.Driver) (any, error) { return one(d.DeviceUUID(1)) }, cuDeviceGetUuid, "1",
		"[100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115]"},
	{"RetainContext", func(d driver.Driver) (any, error) { return one(d.RetainContext(1)) }, cuDevicePrimaryCtxRetain, "1",
		0x7f00000000c0},
	{"ReleaseContext", func(d driver.Driver) (any, error) { return nil, d.ReleaseContext(1) }, cuDevicePrimaryCtxRelease,
		"1", nil},
	{"SetContext", func(d driver.Driver) (any, error) { return nil, d.SetContext(big) }, cuCtxSetCurrent, "0x7fd200000001",
		nil},
	{"MemoryInfo", func(d driver.Driver) (any, error) {
		free, total, err := d.MemoryInfo()
		return [2]uint64{free, total}, err
	}, cuMemGetInfo, " ", "[4294967297 85899345920]"},
	{"LoadModule", func(d driver.Driver) (any, error) {
		m, log, err := d.LoadModule([]byte("text\x00"))
		if log != "ptxas: about text" {
			return nil, fmt.Errorf("the log is %q", log)
		}
		return m, err
	}, cuModuleLoadDataEx, `"text", options 5 6, log of 8192`, 0x7f00000000d0},
	{"UnloadModule", func(d driver.Driver) (any, error) { return nil, d.UnloadModule(big) }, cuModuleUnload,
		"0x7fd200000001", nil},
	{"GetFunction", func(d driver.Driver) (any, error) { return one(d.GetFunction(big, "scan")) }, cuModuleGetFunction,
		`0x7fd200000001, "scan"`, 0x7f00000000f0},
	{"FunctionAttribute", func(d driver.Driver) (any, error) { return one(d.FunctionAttribute(big, driver.FunctionRegisters)) },
		cuFuncGetAttribute, "4, 0x7fd200000001", 40},
	{"SetFunctionAttribute", func(d driver.Driver) (any, error) {
		return nil, d.SetFunctionAttribute(big, driver.SharedBytes, 99999)
	}, cuFuncSetAttribute, "0x7fd200000001, 8, 99999", nil},
	{"Occupancy", func(d driver.Driver) (any, error) { return one(d.Occupancy(big, 256, 49152)) },
		cuOccupancyMaxActiveBlocksPerMultiprocessor, "0x7fd200000001, 256, 49152", 3},
	{"CreatePool", func(d driver.Driver) (any, error) { return one(d.CreatePool(1, 0)) }, cuMemPoolCreate,
		"type 1, handles 0, location 1:1, security 0, most 0, usage 0, rest 0", 0x7f0000000050},
	{"DestroyPool", func(d driver.Driver) (any, error) { return nil, d.DestroyPool(big) }, cuMemPoolDestroy,
		"0x7fd200000001", nil},
	{"KeepPool", func(d driver.Driver) (any, error) { return nil, d.KeepPool(big, 1<<33) }, cuMemPoolSetAttribute,
		"0x7fd200000001, 4, 8589934592", nil},
	{"TrimPool", func(d driver.Driver) (any, error) { return nil, d.TrimPool(big, 1<<33) }, cuMemPoolTrimTo,
		"0x7fd200000001, 8589934592", nil},
	{"AllocFromPool", func(d driver.Driver) (any, error) { return one(d.AllocFromPool(big, 1<<33, 7)) },
		cuMemAllocFromPoolAsync, "8589934592, 0x7fd200000001, 0x7", 0x7fd200000100},
	{"Free", func(d driver.Driver) (any, error) { return nil, d.Free(big, 7) }, cuMemFreeAsync, "0x7fd200000001, 0x7", nil},
	{"AllocHost", func(d driver.Driver) (any, error) {
		b, err := d.AllocHost(3)
		if err == nil {
			b = append([]byte(nil), b...)
		}
		return string(b), err
	}, cuMemHostAlloc, "3, 1", "hhh"},
	{"FreeHost", func(d driver.Driver) (any, error) {
		b, err := d.AllocHost(5)
		if err != nil {
			return nil, err
		}
		copy(b, "abcde")
		return nil, d.FreeHost(b)
	}, cuMemFreeHost, "abc", nil},
	{"CopyToDevice", func(d driver.Driver) (any, error) { return nil, d.CopyToDevice(big, []byte("bytes"), 7) },
		cuMemcpyHtoDAsync, `0x7fd200000001, "bytes", 0x7`, nil},
	{"CopyToHost", func(d driver.Driver) (any, error) {
		b := []byte("0123456")
		err := d.CopyToHost(b[1:4], big, 7)
		return string(b), err
	}, cuMemcpyDtoHAsync, "0x7fd200000001, 3, 0x7", "0ddd456"},
	{"CopyOnDevice", func(d driver.Driver) (any, error) { return nil, d.CopyOnDevice(big, big+2, 1<<33, 7) },
		cuMemcpyDtoDAsync, "0x7fd200000001, 0x7fd200000003, 8589934592, 0x7", nil},
	{"Fill", func(d driver.Driver) (any, error) { return nil, d.Fill(big, 0xfe, 1<<33, 7) }, cuMemsetD8Async,
		"0x7fd200000001, 254, 8589934592, 0x7", nil},
	{"CreateStream", func(d driver.Driver) (any, error) { return one(d.CreateStream()) }, cuStreamCreate, "1",
		0x7f0000000051},
	{"DestroyStream", func(d driver.Driver) (any, error) { return nil, d.DestroyStream(big) }, cuStreamDestroy,
		"0x7fd200000001", nil},
	{"Synchronize", func(d driver.Driver) (any, error) { return nil, d.Synchronize(big) }, cuStreamSynchronize,
		"0x7fd200000001", nil},
	{"Wait", func(d driver.Driver) (any, error) { return nil, d.Wait(big, 9) }, cuStreamWaitEvent,
		"0x7fd200000001, 0x9, 0", nil},
	{"CreateEvent", func(d driver.Driver) (any, error) { return one(d.CreateEvent(false)) }, cuEventCreate, "2",
		0x7f00000000e0},
	{"DestroyEvent", func(d driver.Driver) (any, error) { return nil, d.DestroyEvent(big) }, cuEventDestroy,
		"0x7fd200000001", nil},
	{"Record", func(d driver.Driver) (any, error) { return nil, d.Record(big, 9) }, cuEventRecord, "0x7fd200000001, 0x9",
		nil},
	{"Query", func(d driver.Driver) (any, error) { return one(d.Query(big)) }, cuEventQuery, "0x7fd200000001", true},
	{"SynchronizeEvent", func(d driver.Driver) (any, error) { return nil, d.SynchronizeEvent(big) }, cuEventSynchronize,
		"0x7fd200000001", nil},
	{"Elapsed", func(d driver.Driver) (any, error) { return one(d.Elapsed(big, 9)) }, cuEventElapsedTime,
		"0x7fd200000001, 0x9", 1.5},
	{"Launch", func(d driver.Driver) (any, error) {
		return nil, d.Launch(driver.Launch{Func: big, Grid: driver.Dim{X: 1 << 30, Y: 2, Z: 3}, Block: driver.Dim{X: 4, Y: 5, Z: 6},
			Shared: 100000, Stream: 7, Params: []byte{1, 2, 3, 4, 5, 6, 7, 0xff, 9, 10, 11, 12}})
	}, cuLaunchKernel, "0x7fd200000001, grid 1073741824 2 3, block 4 5 6, shared 100000, 0x7, params 0, " +
		"extra 01020304050607ff090a0b0c", nil},
	{"BeginCapture", func(d driver.Driver) (any, error) { return nil, d.BeginCapture(big) }, cuStreamBeginCapture,
		"0x7fd200000001, 2", nil},
	{"EndCapture", func(d driver.Driver) (any, error) { return one(d.EndCapture(big)) }, cuStreamEndCapture,
		"0x7fd200000001", 0x7f0000000060},
	{"Instantiate", func(d driver.Driver) (any, error) { return one(d.Instantiate(big)) }, cuGraphInstantiate,
		"0x7fd200000001, 0", 0x7f0000000061},
	{"LaunchGraph", func(d driver.Driver) (any, error) { return nil, d.LaunchGraph(big, 9) }, cuGraphLaunch,
		"0x7fd200000001, 0x9", nil},
	{"DestroyGraph", func(d driver.Driver) (any, error) { return nil, d.DestroyGraph(big) }, cuGraphDestroy,
		"0x7fd200000001", nil},
	{"DestroyExec", func(d driver.Driver) (any, error) { return nil, d.DestroyExec(big) }, cuGraphExecDestroy,
		"0x7fd200000001", nil},
}

func one[T any](v T, err error) (any, error) { return v, err }

// TestMethods checks the arguments and answers of each method.
func TestMethods(t *testing.T) {
	f := newFake(t)
	all := map[string]bool{}
	for _, m := range methods {
		all[m.name] = true
		got, err := m.call(f.library)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if fmt.Sprint(got) != fmt.Sprint(m.want) {
			t.Errorf("%s returned %v, expected %v", m.name, got, m.want)
		}
		lines := strings.Split(strings.TrimSpace(f.log()), "\n")
		if line, want := lines[len(lines)-1], names[m.sym]+"("+m.log+")"; line != want {
			t.Errorf("%s called\n%s, expected\n%s", m.name, line, want)
		}
	}
	for i, d := 0, reflect.TypeFor[driver.Driver](); i < d.NumMethod(); i++ {
		if !all[d.Method(i).Name] {
			t.Errorf("%s is not in the list", d.Method(i).Name)
		}
	}
	for s := range symbols {
		if f.address[s].Load() == 0 && s != cuGetErrorString {
			t.Errorf("%v has not been called", s)
		}
	}
}

// TestFailures lets the function of each method fail.
func TestFailures(t *testing.T) {
	f := newFake(t)
	for _, m := range methods {
		for _, c := range []driver.Code{driver.LaunchFailed, 12345} {
			f.fail(names[m.sym], c)
			_, err := m.call(f.library)
			f.fail("", 0)
			if m.sym == cuModuleLoadDataEx && err == nil {
				t.Errorf("%s did not fail", m.name)
			}
			var e *driver.Error
			if !errors.As(err, &e) {
				t.Errorf("%s: %v, expected a *driver.Error", m.name, err)
				continue
			}
			want := driver.Error{Call: m.sym.String(), Code: c}
			if c == 12345 {
				want.Detail = "words of the driver"
			}
			if *e != want {
				t.Errorf("%s: %+v, expected %+v", m.name, *e, want)
			}
		}
	}
	f.fail("cuEventQuery", driver.NotReady)
	if done, err := f.Query(1); done || err != nil {
		t.Errorf("an event that is not ready: %t, %v", done, err)
	}
	f.fail("cuEventQuery", 9999) // without words
	if _, err := f.Query(1); err == nil || err.Error() != "cuEventQuery: error 9999 (CUDA error 9999)" {
		t.Errorf("an error without words: %v", err)
	}
	f.fail("", 0)
}

// TestArguments checks calls other than methods.
func TestArguments(t *testing.T) {
	f := newFake(t)
	check := func(want string, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		if got := f.log(); got != want+"\n" {
			t.Errorf("called\n%s, expected\n%s", got, want)
		}
	}
	_, err := f.CreateEvent(true)
	check("cuEventCreate(0)", err)
	check("cuLaunchKernel(0x5, grid 1 1 1, block 32 1 1, shared 0, 0, params 0, extra none)",
		f.Launch(driver.Launch{Func: 5, Grid: driver.Dim{X: 1, Y: 1, Z: 1}, Block: driver.Dim{X: 32, Y: 1, Z: 1}}))
	_, err = f.CreatePool(1, 1<<33)
	check("cuDriverGetVersion( )\n"+
		"cuMemPoolCreate(type 1, handles 0, location 1:1, security 0, most 8589934592, usage 0, rest 0)", err)
	f.machine(12010, 1, 8, 1) // older pools have no limit
	_, err = f.CreatePool(1, 1<<33)
	check("cuDriverGetVersion( )\n"+
		"cuMemPoolCreate(type 1, handles 0, location 1:1, security 0, most 0, usage 0, rest 0)", err)
	check("cuMemcpyHtoDAsync_v2(0x9, \"\", 0x7)", f.CopyToDevice(9, nil, 7))
	check("cuMemcpyDtoHAsync_v2(0x9, 0, 0x7)", f.CopyToHost(nil, 9, 7))
	if _, err := f.AllocHost(0); !driver.Is(err, driver.InvalidValue) {
		t.Errorf("no bytes: %v", err)
	}
	for _, text := range []string{"", "text"} {
		if _, _, err := f.LoadModule([]byte(text)); !driver.Is(err, driver.InvalidValue) {
			t.Errorf("text without a zero byte at its end: %v", err)
		}
	}
	f.fail("cuModuleLoadDataEx", driver.InvalidPTX)
	if _, log, err := f.LoadModule([]byte("bad\x00")); !driver.Is(err, driver.InvalidPTX) || log != "ptxas: about bad" {
		t.Errorf("a module that is refused: %q, %v", log, err)
	}
	f.fail("", 0)
}

// TestLayouts checks structures against the C compiler's.
func TestLayouts(t *testing.T) {
	f := newFake(t)
	var p poolProps
	size, _, _ := purego.SyscallN(f.function("fake_size_of_props"))
	if size != unsafe.Sizeof(p) || size != 88 {
		t.Errorf("CUmemPoolProps is of %d bytes here, of %d there; expected 88", unsafe.Sizeof(p), size)
	}
	for i, here := range []uintptr{unsafe.Offsetof(p.allocType), unsafe.Offsetof(p.handleTypes), unsafe.Offsetof(p.location),
		unsafe.Offsetof(p.device), unsafe.Offsetof(p.security), unsafe.Offsetof(p.maxSize), unsafe.Offsetof(p.usage),
		unsafe.Offsetof(p.reserved)} {
		if there, _, _ := purego.SyscallN(f.function("fake_offset_of_props"), uintptr(i)); here != there {
			t.Errorf("field %d of CUmemPoolProps is at %d here, at %d there", i, here, there)
		}
	}
	var e launchExtra
	if got := [...]uintptr{unsafe.Offsetof(e.buffer), unsafe.Offsetof(e.bytesKey), unsafe.Offsetof(e.bytes),
		unsafe.Offsetof(e.end), unsafe.Sizeof(e)}; got != [...]uintptr{8, 16, 24, 32, 40} {
		t.Errorf("the list of a launch lies at %v", got)
	}
	var v loadValues
	if unsafe.Offsetof(v.bytes) != 8 || unsafe.Sizeof(v) != 16 {
		t.Errorf("the values of options are not two pointers: %+v", v)
	}
}

// TestHeader compiles the fake library against NVIDIA's header, to show that its declarations, and so the ones that
// the other tests check, are NVIDIA's.
func TestHeader(t *testing.T) {
	header := os.Getenv("ESSMC_CUDA_H")
	if header == "" {
		t.Skip("ESSMC_CUDA_H names no cuda.h")
	}
	f := newFake(t, "-DCUDA_HEADER=\""+header+"\"", "-I"+filepath.Dir(header))
	for _, m := range methods {
		if _, err := m.call(f.library); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestOpenErrors checks that each way to lack a driver gives one line that says what to do.
func TestOpenErrors(t *testing.T) {
	check := func(what, want string, err error) {
		t.Helper()
		if err == nil || !regexp.MustCompile("^"+want+"$").MatchString(err.Error()) {
			t.Errorf("%s: %v\nexpected %s", what, err, want)
		}
	}
	_, err := open([]string{"libno-such-cuda.so.1"})
	check("no library", `no CUDA driver: libno-such-cuda\.so\.1: cannot open shared object file: .*: install NVIDIA's driver, `+
		`for CUDA 11\.4 or newer`, err)

	bad := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(bad, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = open([]string{bad})
	check("a file that is no library", `no CUDA driver: .*libcuda.so.1: .*: install NVIDIA's driver, .*`, err)

	f := newFake(t)
	again := func() error { _, err := open([]string{f.path}); return err }
	for _, c := range []struct {
		code driver.Code
		want string
	}{
		{driver.StubLibrary, "this library is a stub to link against, .*: install NVIDIA's driver, and .*LD_LIBRARY_PATH"},
		{driver.NoDevice, "the driver finds no card: see whether nvidia-smi lists one, .*"},
		{driver.DriverMismatch, "the library is of another version than the driver in the kernel: restart .*"},
		{driver.Unknown, `the driver does not start: cuInit: unknown error \(CUDA error 999\)`},
	} {
		f.fail("cuInit", c.code)
		check(c.code.String(), ".*libfake.so: "+c.want, again())
	}
	f.fail("", 0)
	f.machine(11030, 1, 8, 1)
	check("an old driver", ".*libfake.so: the driver is for CUDA 11.3: CUDA 11.4 or newer is needed, install a newer .*", again())
	f.machine(11040, 0, 8, 1)
	check("no card", ".*libfake.so: the driver finds no card: .*", again())
	f.machine(11040, 2, 8, 1)
	if err := again(); err != nil {
		t.Error(err)
	}

	old := newFake(t, "-DWITHOUT")
	check("a missing function", `cuGraphExecDestroy: not found \(CUDA error 500\): .*libfake.so has no function `+
		`cuGraphExecDestroy \(it is a driver for CUDA 12\.4\): install NVIDIA's driver for CUDA 11\.4 or newer`,
		old.DestroyExec(1))
}

// TestDevices checks the descriptions of devices.
func TestDevices(t *testing.T) {
	f := newFake(t)
	good, err := driver.Describe(f, 0)
	if err != nil || good.Check() != nil || good.String() != "device 0 (Fake 0)" || good.Major != 9 ||
		good.Total != 0x1400000000 {
		t.Errorf("%+v, %v, %v", good, err, good.Check())
	}
	old, err := driver.Describe(f, 1)
	if err != nil || old.Check() == nil ||
		old.Check().Error() != "device 1 (Fake 1) has compute capability 7.5: 8.0 or newer is needed (Ampere, of 2020)" {
		t.Errorf("%+v, %v, %v", old, err, old.Check())
	}
	f.machine(12040, 2, 9, 0)
	if bare, err := driver.Describe(f, 0); err != nil || bare.Check() == nil {
		t.Errorf("a card without pools: %+v, %v", bare, err)
	}
	f.log()
	if free, err := driver.FreeMemory(f, 0); free != 0x100000001 || err != nil {
		t.Errorf("free memory is %d, %v", free, err)
	}
	const want = "cuDevicePrimaryCtxRetain(0)\ncuCtxSetCurrent(0x7f00000000c0)\ncuMemGetInfo_v2( )\n" +
		"cuDevicePrimaryCtxRelease_v2(0)\n"
	if got := f.log(); got != want {
		t.Errorf("called\n%s", got)
	}
	f.fail("cuMemGetInfo_v2", driver.OutOfMemory)
	if _, err := driver.FreeMemory(f, 0); !driver.Is(err, driver.OutOfMemory) {
		t.Errorf("free memory of a full device: %v", err)
	}
	if got := f.log(); got != want {
		t.Errorf("called\n%s", got)
	}
}

// TestThreads calls from several threads while the collector runs: memory that the library writes stays where it is.
func TestThreads(t *testing.T) {
	f := newFake(t)
	var group sync.WaitGroup
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for range 4 {
		group.Go(func() {
			for range 300 {
				// Calls without a line in the log: its buffer is of one thread.
				if got := describe(f.function("cuGetErrorString"), 719); got != "words of the driver" {
					t.Errorf("found %q", got)
				}
			}
		})
	}
	group.Wait()
	close(stop)
}
