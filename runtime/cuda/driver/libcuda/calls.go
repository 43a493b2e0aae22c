//go:build cuda && ((linux && (amd64 || arm64)) || (windows && amd64))

package libcuda

import (
	"bytes"
	"strings"
	"unsafe"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Constants of the driver's API, by its names.
const (
	memHostAllocPortable   = 1 // CU_MEMHOSTALLOC_PORTABLE: pinned for all contexts
	streamNonBlocking      = 1 // CU_STREAM_NON_BLOCKING
	eventDisableTiming     = 2 // CU_EVENT_DISABLE_TIMING
	captureRelaxed         = 2 // CU_STREAM_CAPTURE_MODE_RELAXED
	poolReleaseThreshold   = 4 // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
	allocationPinned       = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	locationDevice         = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	jitErrorLog            = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogBytes       = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
	launchParamEnd         = 0 // CU_LAUNCH_PARAM_END
	launchParamBuffer      = 1 // CU_LAUNCH_PARAM_BUFFER_POINTER
	launchParamBufferBytes = 2 // CU_LAUNCH_PARAM_BUFFER_SIZE
)

// boundedPools is the first version whose pools can have a limit. Older drivers require zeros in that field.
const boundedPools = 12020

// poolProps is CUmemPoolProps.
type poolProps struct {
	allocType   int32
	handleTypes int32
	location    int32 // its type
	device      int32
	security    uintptr
	maxSize     uint64
	usage       uint16
	reserved    [54]byte
}

// loadValues are the values of the options of cuModuleLoadDataEx. A number occupies the low half of a pointer-sized
// field; the driver may write there.
type loadValues struct {
	log   unsafe.Pointer
	bytes uintptr
}

// launchExtra is the list "extra" of cuLaunchKernel: the parameters as one buffer, and its size.
type launchExtra struct {
	bufferKey uintptr
	buffer    unsafe.Pointer
	bytesKey  uintptr
	bytes     *uint64
	end       uintptr
}

func (l *library) Init() error { return l.call(cuInit, 0) }

func (l *library) Version() (int, error) {
	var v int32
	err := l.call(cuDriverGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

func (l *library) DeviceCount() (int, error) {
	var n int32
	err := l.call(cuDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

func (l *library) DeviceName(d driver.Device) (string, error) {
	var b [256]byte
	if err := l.call(cuDeviceGetName, uintptr(unsafe.Pointer(&b)), uintptr(len(b)), uintptr(d)); err != nil {
		return "", err
	}
	name, _, _ := bytes.Cut(b[:], []byte{0})
	return string(name), nil
}

func (l *library) DeviceMemory(d driver.Device) (uint64, error) {
	var n uint64
	err := l.call(cuDeviceTotalMem, uintptr(unsafe.Pointer(&n)), uintptr(d))
	return n, err
}

func (l *library) DeviceAttribute(d driver.Device, a driver.Attribute) (int, error) {
	var v int32
	err := l.call(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(d))
	return int(v), err
}

func (l *library) DeviceUUID(d driver.Device) (u [16]byte, err error) {
	var b [16]byte
	err = l.call(cuDeviceGetUuid, uintptr(unsafe.Pointer(&b)), uintptr(d))
	return b, err
}

func (l *library) RetainContext(d driver.Device) (driver.Context, error) {
	var c uintptr
	err := l.call(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c)), uintptr(d))
	return driver.Context(c), err
}

func (l *library) ReleaseContext(d driver.Device) error {
	return l.call(cuDevicePrimaryCtxRelease, uintptr(d))
}

func (l *library) SetContext(c driver.Context) error { return l.call(cuCtxSetCurrent, uintptr(c)) }

func (l *library) MemoryInfo() (free, total uint64, err error) {
	var b [2]uint64
	err = l.call(cuMemGetInfo, uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&b[1])))
	return b[0], b[1], err
}

// logBytes is the size of the buffer for messages of the PTX compiler.
const logBytes = 8 << 10

func (l *library) LoadModule(image []byte) (driver.Module, string, error) {
	if len(image) == 0 || image[len(image)-1] != 0 {
		return 0, "", &driver.Error{Call: cuModuleLoadDataEx.String(), Code: driver.InvalidValue,
			Detail: "the text does not end with a zero byte"}
	}
	log := make([]byte, logBytes)
	options := [2]int32{jitErrorLog, jitErrorLogBytes}
	values := loadValues{unsafe.Pointer(&log[0]), logBytes}
	var m uintptr
	err := l.call(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&image[0])),
		uintptr(len(options)), uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(&values)))
	text, _, _ := bytes.Cut(log, []byte{0})
	return driver.Module(m), strings.TrimSpace(string(text)), err
}

func (l *library) UnloadModule(m driver.Module) error { return l.call(cuModuleUnload, uintptr(m)) }

func (l *library) GetFunction(m driver.Module, name string) (driver.Function, error) {
	text := append([]byte(name), 0)
	var f uintptr
	err := l.call(cuModuleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&text[0])))
	return driver.Function(f), err
}

func (l *library) FunctionAttribute(f driver.Function, a driver.FunctionAttribute) (int, error) {
	var v int32
	err := l.call(cuFuncGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(f))
	return int(v), err
}

func (l *library) SetFunctionAttribute(f driver.Function, a driver.FunctionAttribute, value int) error {
	return l.call(cuFuncSetAttribute, uintptr(f), uintptr(a), uintptr(value))
}

func (l *library) Occupancy(f driver.Function, threads, shared int) (int, error) {
	var n int32
	err := l.call(cuOccupancyMaxActiveBlocksPerMultiprocessor, uintptr(unsafe.Pointer(&n)), uintptr(f),
		uintptr(threads), uintptr(shared))
	return int(n), err
}

func (l *library) CreatePool(d driver.Device, limit uint64) (driver.Pool, error) {
	props := poolProps{allocType: allocationPinned, location: locationDevice, device: int32(d)}
	if limit > 0 {
		v, err := l.Version()
		if err != nil {
			return 0, err
		}
		if v >= boundedPools {
			props.maxSize = limit
		}
	}
	var p uintptr
	err := l.call(cuMemPoolCreate, uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(&props)))
	return driver.Pool(p), err
}

func (l *library) DestroyPool(p driver.Pool) error { return l.call(cuMemPoolDestroy, uintptr(p)) }

func (l *library) KeepPool(p driver.Pool, bytes uint64) error {
	return l.call(cuMemPoolSetAttribute, uintptr(p), poolReleaseThreshold, uintptr(unsafe.Pointer(&bytes)))
}

func (l *library) TrimPool(p driver.Pool, keep uint64) error {
	return l.call(cuMemPoolTrimTo, uintptr(p), uintptr(keep))
}

func (l *library) AllocFromPool(p driver.Pool, bytes uint64, s driver.Stream) (driver.Ptr, error) {
	var a uint64
	err := l.call(cuMemAllocFromPoolAsync, uintptr(unsafe.Pointer(&a)), uintptr(bytes), uintptr(p), uintptr(s))
	return driver.Ptr(a), err
}

func (l *library) Free(a driver.Ptr, s driver.Stream) error {
	return l.call(cuMemFreeAsync, uintptr(a), uintptr(s))
}

func (l *library) AllocHost(bytes int) ([]byte, error) {
	if bytes <= 0 {
		return nil, &driver.Error{Call: cuMemHostAlloc.String(), Code: driver.InvalidValue}
	}
	var p unsafe.Pointer
	err := l.call(cuMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(bytes), memHostAllocPortable)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

func (l *library) FreeHost(b []byte) error {
	return l.call(cuMemFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

func (l *library) CopyToDevice(dst driver.Ptr, src []byte, s driver.Stream) error {
	return l.call(cuMemcpyHtoDAsync, uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)),
		uintptr(s))
}

func (l *library) CopyToHost(dst []byte, src driver.Ptr, s driver.Stream) error {
	return l.call(cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)),
		uintptr(s))
}

func (l *library) CopyOnDevice(dst, src driver.Ptr, bytes uint64, s driver.Stream) error {
	return l.call(cuMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

func (l *library) Fill(dst driver.Ptr, value byte, bytes uint64, s driver.Stream) error {
	return l.call(cuMemsetD8Async, uintptr(dst), uintptr(value), uintptr(bytes), uintptr(s))
}

func (l *library) CreateStream() (driver.Stream, error) {
	var s uintptr
	err := l.call(cuStreamCreate, uintptr(unsafe.Pointer(&s)), streamNonBlocking)
	return driver.Stream(s), err
}

func (l *library) DestroyStream(s driver.Stream) error { return l.call(cuStreamDestroy, uintptr(s)) }

func (l *library) Synchronize(s driver.Stream) error { return l.call(cuStreamSynchronize, uintptr(s)) }

func (l *library) Wait(s driver.Stream, e driver.Event) error {
	return l.call(cuStreamWaitEvent, uintptr(s), uintptr(e), 0)
}

func (l *library) CreateEvent(timed bool) (driver.Event, error) {
	flags := uintptr(eventDisableTiming)
	if timed {
		flags = 0
	}
	var e uintptr
	err := l.call(cuEventCreate, uintptr(unsafe.Pointer(&e)), flags)
	return driver.Event(e), err
}

func (l *library) DestroyEvent(e driver.Event) error { return l.call(cuEventDestroy, uintptr(e)) }

func (l *library) Record(e driver.Event, s driver.Stream) error {
	return l.call(cuEventRecord, uintptr(e), uintptr(s))
}

func (l *library) Query(e driver.Event) (bool, error) {
	c, err := l.result(cuEventQuery, uintptr(e))
	switch {
	case err != nil:
		return false, err
	case c == driver.Success || c == driver.NotReady:
		return c == driver.Success, nil
	}
	return false, l.fail(cuEventQuery, c, "")
}

func (l *library) SynchronizeEvent(e driver.Event) error {
	return l.call(cuEventSynchronize, uintptr(e))
}

func (l *library) Elapsed(from, to driver.Event) (float32, error) {
	var ms float32
	err := l.call(cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), uintptr(from), uintptr(to))
	return ms, err
}

func (l *library) Launch(k driver.Launch) error {
	var extra *launchExtra
	if len(k.Params) > 0 {
		size := uint64(len(k.Params))
		extra = &launchExtra{launchParamBuffer, unsafe.Pointer(&k.Params[0]), launchParamBufferBytes, &size, launchParamEnd}
	}
	return l.call(cuLaunchKernel, uintptr(k.Func), uintptr(k.Grid.X), uintptr(k.Grid.Y), uintptr(k.Grid.Z),
		uintptr(k.Block.X), uintptr(k.Block.Y), uintptr(k.Block.Z), uintptr(k.Shared), uintptr(k.Stream), 0,
		uintptr(unsafe.Pointer(extra)))
}

// BeginCapture captures in relaxed mode, so calls on the backend's other streams stay allowed while s records.
func (l *library) BeginCapture(s driver.Stream) error {
	return l.call(cuStreamBeginCapture, uintptr(s), captureRelaxed)
}

func (l *library) EndCapture(s driver.Stream) (driver.Graph, error) {
	var g uintptr
	err := l.call(cuStreamEndCapture, uintptr(s), uintptr(unsafe.Pointer(&g)))
	return driver.Graph(g), err
}

func (l *library) Instantiate(g driver.Graph) (driver.Exec, error) {
	var x uintptr
	err := l.call(cuGraphInstantiate, uintptr(unsafe.Pointer(&x)), uintptr(g), 0)
	return driver.Exec(x), err
}

func (l *library) LaunchGraph(x driver.Exec, s driver.Stream) error {
	return l.call(cuGraphLaunch, uintptr(x), uintptr(s))
}

func (l *library) DestroyGraph(g driver.Graph) error { return l.call(cuGraphDestroy, uintptr(g)) }

func (l *library) DestroyExec(x driver.Exec) error { return l.call(cuGraphExecDestroy, uintptr(x)) }
