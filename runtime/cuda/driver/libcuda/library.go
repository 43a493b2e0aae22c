//go:build cuda && ((linux && (amd64 || arm64)) || (windows && amd64))

package libcuda

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// symbol is a function of the library.
type symbol int

const (
	cuInit symbol = iota
	cuDriverGetVersion
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGetName
	cuDeviceTotalMem
	cuDeviceGetAttribute
	cuDeviceGetUuid
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuMemGetInfo
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuFuncGetAttribute
	cuFuncSetAttribute
	cuOccupancyMaxActiveBlocksPerMultiprocessor
	cuMemPoolCreate
	cuMemPoolDestroy
	cuMemPoolSetAttribute
	cuMemPoolTrimTo
	cuMemAllocFromPoolAsync
	cuMemFreeAsync
	cuMemHostAlloc
	cuMemFreeHost
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemsetD8Async
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamWaitEvent
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventQuery
	cuEventSynchronize
	cuEventElapsedTime
	cuLaunchKernel
	cuStreamBeginCapture
	cuStreamEndCapture
	cuGraphInstantiate
	cuGraphLaunch
	cuGraphDestroy
	cuGraphExecDestroy
	symbols
)

// names are the exported names. If the API has several versions of a function, the name is the version whose
// arguments this package uses. All of them exist in drivers since CUDA 11.4.
var names = [symbols]string{
	cuInit: "cuInit", cuDriverGetVersion: "cuDriverGetVersion", cuGetErrorString: "cuGetErrorString",
	cuDeviceGetCount: "cuDeviceGetCount", cuDeviceGetName: "cuDeviceGetName", cuDeviceTotalMem: "cuDeviceTotalMem_v2",
	cuDeviceGetAttribute: "cuDeviceGetAttribute", cuDeviceGetUuid: "cuDeviceGetUuid_v2",
	cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	cuCtxSetCurrent: "cuCtxSetCurrent", cuMemGetInfo: "cuMemGetInfo_v2", cuModuleLoadDataEx: "cuModuleLoadDataEx",
	cuModuleUnload: "cuModuleUnload", cuModuleGetFunction: "cuModuleGetFunction",
	cuFuncGetAttribute: "cuFuncGetAttribute", cuFuncSetAttribute: "cuFuncSetAttribute",
	cuOccupancyMaxActiveBlocksPerMultiprocessor: "cuOccupancyMaxActiveBlocksPerMultiprocessor",
	cuMemPoolCreate: "cuMemPoolCreate", cuMemPoolDestroy: "cuMemPoolDestroy",
	cuMemPoolSetAttribute: "cuMemPoolSetAttribute", cuMemPoolTrimTo: "cuMemPoolTrimTo",
	cuMemAllocFromPoolAsync: "cuMemAllocFromPoolAsync", cuMemFreeAsync: "cuMemFreeAsync",
	cuMemHostAlloc: "cuMemHostAlloc", cuMemFreeHost: "cuMemFreeHost", cuMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2",
	cuMemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2", cuMemcpyDtoDAsync: "cuMemcpyDtoDAsync_v2",
	cuMemsetD8Async: "cuMemsetD8Async", cuStreamCreate: "cuStreamCreate", cuStreamDestroy: "cuStreamDestroy_v2",
	cuStreamSynchronize: "cuStreamSynchronize", cuStreamWaitEvent: "cuStreamWaitEvent", cuEventCreate: "cuEventCreate",
	cuEventDestroy: "cuEventDestroy_v2", cuEventRecord: "cuEventRecord", cuEventQuery: "cuEventQuery",
	cuEventSynchronize: "cuEventSynchronize", cuEventElapsedTime: "cuEventElapsedTime",
	cuLaunchKernel: "cuLaunchKernel", cuStreamBeginCapture: "cuStreamBeginCapture_v2",
	cuStreamEndCapture: "cuStreamEndCapture", cuGraphInstantiate: "cuGraphInstantiateWithFlags",
	cuGraphLaunch: "cuGraphLaunch", cuGraphDestroy: "cuGraphDestroy", cuGraphExecDestroy: "cuGraphExecDestroy",
}

// String returns the name of the function without its version, for messages.
func (s symbol) String() string {
	name := strings.TrimSuffix(names[s], "_v2")
	return strings.TrimSuffix(name, "WithFlags")
}

// library is a loaded driver. It stays loaded until the process ends.
type library struct {
	path    string
	handle  uintptr
	address [symbols]atomic.Uintptr // 0 until it is looked up
}

var _ driver.Driver = (*library)(nil)

// Open loads and starts the driver of this machine. Its error is one line that says what to do if there is no
// driver, it is too old, or it finds no card.
func Open() (driver.Driver, error) { return open(places) }

func open(places []string) (driver.Driver, error) {
	handle, path, err := load(places)
	if err != nil {
		return nil, fmt.Errorf("no CUDA driver: %v: install NVIDIA's driver, for CUDA %s or newer", err,
			driver.VersionText(driver.LeastVersion))
	}
	l := &library{path: path, handle: handle}
	if err := driver.Start(l); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// lookup returns the address of a function.
func (l *library) lookup(s symbol) (uintptr, error) {
	if a := l.address[s].Load(); a != 0 {
		return a, nil
	}
	a, err := find(l.handle, names[s])
	if err != nil {
		detail := fmt.Sprintf("%s has no function %s", l.path, names[s])
		if s != cuDriverGetVersion {
			if v, err := l.Version(); err == nil {
				detail += fmt.Sprintf(" (it is a driver for CUDA %s): install NVIDIA's driver for CUDA %s or newer",
					driver.VersionText(v), driver.VersionText(driver.LeastVersion))
			}
		}
		return 0, &driver.Error{Call: s.String(), Code: driver.NotFound, Detail: detail}
	}
	l.address[s].Store(a)
	return a, nil
}

// call calls a function. Memory whose address is an argument is on the heap, and stays there until the call returns.
//
//go:uintptrescapes
func (l *library) call(s symbol, args ...uintptr) error {
	code, err := l.result(s, args...)
	if err == nil && code != driver.Success {
		err = l.fail(s, code, "")
	}
	return err
}

// result is call for results that are no failures.
//
//go:uintptrescapes
func (l *library) result(s symbol, args ...uintptr) (driver.Code, error) {
	f, err := l.lookup(s)
	if err != nil {
		return 0, err
	}
	r, _, _ := purego.SyscallN(f, args...)
	return driver.Code(int32(r)), nil
}

// fail returns the error of a result. For results without a name in package driver it uses the driver's description.
func (l *library) fail(s symbol, c driver.Code, detail string) error {
	if detail == "" && !c.Known() {
		if f, err := l.lookup(cuGetErrorString); err == nil {
			detail = describe(f, c)
		}
	}
	return &driver.Error{Call: s.String(), Code: c, Detail: detail}
}

// describe returns the driver's text for a result, or "".
func describe(function uintptr, c driver.Code) string {
	var text *byte
	if r, _, _ := purego.SyscallN(function, uintptr(c), uintptr(unsafe.Pointer(&text))); int32(r) != 0 || text == nil {
		return ""
	}
	return cstring(text, 1024)
}

// cstring copies a text that ends with a zero byte, or its first most bytes.
func cstring(p *byte, most int) string {
	var b strings.Builder
	for i := range most {
		c := *(*byte)(unsafe.Add(unsafe.Pointer(p), i))
		if c == 0 {
			break
		}
		b.WriteByte(c)
	}
	return b.String()
}
