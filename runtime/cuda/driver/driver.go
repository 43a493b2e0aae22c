// Package driver declares, as an interface, the calls of NVIDIA's CUDA driver that the CUDA backend makes. Its
// implementations are the real driver (package libcuda, behind the build tag cuda), the emulator that tests run on
// (package emu), and drivers that fail on purpose.
//
// The methods correspond one to one to the driver's API, in Go's types: cuMemAllocFromPoolAsync is AllocFromPool.
// The API's rules apply. All calls but Init, Version and those on devices work in the context that is current on the
// calling thread (SetContext). Calls on a Stream return before their work is done; a buffer that such a call reads
// or writes must not move until then. A handle is a number that has meaning only to the driver that returned it; 0
// is not a handle.
//
// The package imports only the standard library. It has no state.
package driver

// Handles of objects of a driver, and addresses in the memory of a device.
type (
	Device   int32 // the number of a device, from 0
	Context  uintptr
	Module   uintptr
	Function uintptr // of a module; valid while that is loaded
	Stream   uintptr
	Event    uintptr
	Pool     uintptr // of memory of a device
	Graph    uintptr // a captured sequence of work
	Exec     uintptr // a graph that can be launched
	Ptr      uint64  // an address in the memory of a device
)

// Dim is the size of a grid in blocks, or of a block in threads.
type Dim struct{ X, Y, Z uint32 }

// Launch is one launch of a kernel.
type Launch struct {
	Func        Function
	Grid, Block Dim
	// Shared is the dynamic shared memory of a block in bytes, in addition to what the kernel declares.
	Shared uint32
	Stream Stream
	// Params are the values of the kernel's parameters, one after the other, each aligned to its size, as in PTX's
	// parameter space. The driver copies them.
	Params []byte
}

// Driver is a CUDA driver. The errors of its methods are *Error. Its methods may be called by several goroutines.
type Driver interface {
	// Init must be called first.
	Init() error
	// Version returns the newest version of CUDA that the driver supports: 12040 for 12.4.
	Version() (int, error)

	DeviceCount() (int, error)
	DeviceName(d Device) (string, error)
	DeviceMemory(d Device) (bytes uint64, err error)
	DeviceAttribute(d Device, a Attribute) (int, error)
	// DeviceUUID returns the 16 bytes that identify the device.
	DeviceUUID(d Device) ([16]byte, error)

	// RetainContext returns the primary context of a device; ReleaseContext releases it.
	RetainContext(d Device) (Context, error)
	ReleaseContext(d Device) error
	// SetContext makes c current on the calling thread.
	SetContext(c Context) error
	// MemoryInfo returns the free and the total memory of the current device, in bytes.
	MemoryInfo() (free, total uint64, err error)

	// LoadModule compiles PTX, a text that ends with a zero byte. If the driver refuses it, log says why.
	LoadModule(image []byte) (m Module, log string, err error)
	UnloadModule(m Module) error
	GetFunction(m Module, name string) (Function, error)
	FunctionAttribute(f Function, a FunctionAttribute) (int, error)
	SetFunctionAttribute(f Function, a FunctionAttribute, value int) error
	// Occupancy returns how many blocks run on a multiprocessor at once, given the threads and the bytes of dynamic
	// shared memory per block.
	Occupancy(f Function, threads int, shared int) (blocks int, err error)

	// CreatePool creates a memory pool on d. limit bounds its bytes if the driver supports that; 0 means no bound.
	CreatePool(d Device, limit uint64) (Pool, error)
	DestroyPool(p Pool) error
	// KeepPool sets how many free bytes the pool keeps for later.
	KeepPool(p Pool, bytes uint64) error
	// TrimPool returns free memory to the device until the pool has keep bytes.
	TrimPool(p Pool, keep uint64) error
	// AllocFromPool allocates in the order of the stream.
	AllocFromPool(p Pool, bytes uint64, s Stream) (Ptr, error)
	// Free frees memory of a pool in the order of the stream.
	Free(a Ptr, s Stream) error

	// AllocHost allocates host memory that devices can access without an intermediate copy ("pinned").
	AllocHost(bytes int) ([]byte, error)
	FreeHost(b []byte) error

	CopyToDevice(dst Ptr, src []byte, s Stream) error
	CopyToHost(dst []byte, src Ptr, s Stream) error
	CopyOnDevice(dst, src Ptr, bytes uint64, s Stream) error
	// Fill sets bytes to value.
	Fill(dst Ptr, value byte, bytes uint64, s Stream) error

	// CreateStream makes a stream that does not wait for the default stream.
	CreateStream() (Stream, error)
	DestroyStream(s Stream) error
	// Synchronize waits until all work of s is done. It returns the error of that work.
	Synchronize(s Stream) error
	// Wait lets later work of s wait for an event.
	Wait(s Stream, e Event) error

	// CreateEvent makes an event; timed ones serve Elapsed.
	CreateEvent(timed bool) (Event, error)
	DestroyEvent(e Event) error
	Record(e Event, s Stream) error
	// Query reports whether the work before the event is done.
	Query(e Event) (done bool, err error)
	SynchronizeEvent(e Event) error
	// Elapsed returns the milliseconds between two events that are done.
	Elapsed(from, to Event) (float32, error)

	Launch(l Launch) error

	// BeginCapture makes s record work instead of executing it, until EndCapture returns the recording.
	BeginCapture(s Stream) error
	EndCapture(s Stream) (Graph, error)
	Instantiate(g Graph) (Exec, error)
	LaunchGraph(x Exec, s Stream) error
	DestroyGraph(g Graph) error
	DestroyExec(x Exec) error
}

// Attribute is a property of a device, by the number of the driver's API (CU_DEVICE_ATTRIBUTE).
type Attribute int32

// The attributes of devices that the backend uses.
const (
	MaxThreadsPerBlock    Attribute = 1
	MaxSharedPerBlock     Attribute = 8 // without raising it by SharedBytes
	WarpSize              Attribute = 10
	MaxRegistersPerBlock  Attribute = 12
	ClockRate             Attribute = 13 // kHz
	Multiprocessors       Attribute = 16
	ComputeMode           Attribute = 20
	MemoryClockRate       Attribute = 36 // kHz
	MemoryBusWidth        Attribute = 37 // bits
	L2Bytes               Attribute = 38
	MaxThreadsPerSM       Attribute = 39
	ComputeMajor          Attribute = 75
	ComputeMinor          Attribute = 76
	MaxSharedPerSM        Attribute = 81
	MaxSharedPerBlockFull Attribute = 97 // after raising it by SharedBytes
	MemoryPools           Attribute = 115
)

// FunctionAttribute is a property of a compiled kernel, by the number of the driver's API (CU_FUNC_ATTRIBUTE).
type FunctionAttribute int32

// The attributes of kernels that the backend uses.
const (
	FunctionThreads   FunctionAttribute = 0 // maximum threads of a block
	FunctionShared    FunctionAttribute = 1 // bytes of shared memory that it declares
	FunctionLocal     FunctionAttribute = 3 // bytes of local memory of a thread: registers that were spilled
	FunctionRegisters FunctionAttribute = 4 // registers of a thread
	// SharedBytes is the maximum shared memory that launches may request, in bytes.
	SharedBytes FunctionAttribute = 8
)
