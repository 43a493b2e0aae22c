package emu

import (
	"strconv"
	"strings"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Modules and their functions.

func (d *Driver) LoadModule(image []byte) (driver.Module, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, err := d.work("cuModuleLoadDataEx")
	if err != nil {
		return 0, "", err
	}
	text, ok := strings.CutSuffix(string(image), "\x00")
	if !ok {
		return 0, "", d.misuse("cuModuleLoadDataEx", driver.InvalidImage, "the text does not end with a zero byte")
	}
	if len(text) == 0 {
		return 0, "", fail("cuModuleLoadDataEx", driver.InvalidImage, "no text")
	}
	m, err := parse(text)
	if err != nil {
		return 0, err.Error(), fail("cuModuleLoadDataEx", driver.InvalidPTX, "%v", err)
	}
	if at, err := strconv.ParseFloat(m.version, 64); err != nil || at > newestPTX(d.options.Version) {
		return 0, "", fail("cuModuleLoadDataEx", driver.UnsupportedPTX, "version %s", m.version)
	}
	major, _ := d.attribute(driver.ComputeMajor)
	minor, _ := d.attribute(driver.ComputeMinor)
	arch := strings.TrimPrefix(m.target, "sm_")
	if n, err := strconv.Atoi(strings.TrimRight(arch, "af")); err != nil || n > 10*major+minor ||
		strings.HasSuffix(arch, "a") && n != 10*major+minor {
		return 0, "", fail("cuModuleLoadDataEx", driver.NoBinary, "target %s on a card of sm_%d%d", m.target, major, minor)
	}
	kernels, err := compile(m)
	if err != nil {
		return 0, err.Error(), fail("cuModuleLoadDataEx", driver.InvalidPTX, "%v", err)
	}
	full, _ := d.attribute(driver.MaxSharedPerBlockFull)
	for _, k := range kernels {
		if k.shared-sharedBase > min(48<<10, full) {
			return 0, "", fail("cuModuleLoadDataEx", driver.InvalidPTX, "kernel %s declares %d bytes of shared memory: expected at most %d",
				k.name, k.shared-sharedBase, 48<<10)
		}
	}
	h := driver.Module(d.handle())
	d.modules[h] = &loaded{device: v, kernels: kernels, functions: map[string]driver.Function{}}
	return h, "", nil
}

// newestPTX is the newest PTX version that a driver of a CUDA version accepts.
func newestPTX(cuda int) float64 {
	major, minor := cuda/1000, cuda%1000/10
	if major == 11 {
		return 7 + float64(min(minor, 8))/10
	}
	return float64(major-4) + float64(minor)/10
}

func (d *Driver) UnloadModule(m driver.Module) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.work("cuModuleUnload"); err != nil {
		return err
	}
	l := d.modules[m]
	if l == nil {
		return d.misuse("cuModuleUnload", driver.InvalidHandle, "module %#x", uintptr(m))
	}
	d.awaited("cuModuleUnload", l, "a module")
	delete(d.modules, m)
	for _, f := range l.functions {
		delete(d.functions, f)
	}
	return nil
}

func (d *Driver) GetFunction(m driver.Module, name string) (driver.Function, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.work("cuModuleGetFunction"); err != nil {
		return 0, err
	}
	l := d.modules[m]
	if l == nil {
		return 0, d.misuse("cuModuleGetFunction", driver.InvalidHandle, "module %#x", uintptr(m))
	}
	if f, ok := l.functions[name]; ok {
		return f, nil
	}
	for _, k := range l.kernels {
		if k.name == name {
			f := driver.Function(d.handle())
			d.functions[f] = &function{module: l, kernel: k, dynamic: 48<<10 - (k.shared - sharedBase)}
			l.functions[name] = f
			return f, nil
		}
	}
	return 0, fail("cuModuleGetFunction", driver.NotFound, "kernel %q", name)
}

func (d *Driver) function(call string, h driver.Function) (*function, error) {
	if _, err := d.work(call); err != nil {
		return nil, err
	}
	f := d.functions[h]
	if f == nil {
		return nil, d.misuse(call, driver.InvalidHandle, "function %#x", uintptr(h))
	}
	return f, nil
}

func (d *Driver) FunctionAttribute(h driver.Function, a driver.FunctionAttribute) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.function("cuFuncGetAttribute", h)
	if err != nil {
		return 0, err
	}
	switch a {
	case driver.FunctionThreads:
		return f.kernel.threads(), nil
	case driver.FunctionShared:
		return f.kernel.shared - sharedBase, nil
	case driver.FunctionLocal:
		return f.kernel.local, nil
	case driver.FunctionRegisters:
		// Not emulated. This is the maximum for kernels with this many threads.
		return min(255, 65536/f.kernel.threads()), nil
	case driver.SharedBytes:
		return f.dynamic, nil
	}
	return 0, fail("cuFuncGetAttribute", driver.InvalidValue, "attribute %d", a)
}

// threads is the maximum number of threads of a block.
func (k *kernel) threads() int {
	for _, n := range [2][3]int{k.reqntid, k.maxntid} {
		if n[0] > 0 {
			return min(1024, n[0]*n[1]*n[2])
		}
	}
	return 1024
}

func (d *Driver) SetFunctionAttribute(h driver.Function, a driver.FunctionAttribute, value int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.function("cuFuncSetAttribute", h)
	if err != nil {
		return err
	}
	most, _ := d.attribute(driver.MaxSharedPerBlockFull)
	if a != driver.SharedBytes || value < 0 || value > most-(f.kernel.shared-sharedBase) {
		return fail("cuFuncSetAttribute", driver.InvalidValue, "attribute %d of kernel %s: %d", a, f.kernel.name, value)
	}
	f.dynamic = value
	return nil
}

func (d *Driver) Occupancy(h driver.Function, threads, shared int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := d.function("cuOccupancyMaxActiveBlocksPerMultiprocessor", h)
	if err != nil {
		return 0, err
	}
	if threads < 1 || shared < 0 {
		return 0, fail("cuOccupancyMaxActiveBlocksPerMultiprocessor", driver.InvalidValue, "%d threads, %d bytes", threads, shared)
	}
	per, _ := d.attribute(driver.MaxThreadsPerSM)
	all, _ := d.attribute(driver.MaxSharedPerSM)
	return min(32, per/threads, all/(f.kernel.shared-sharedBase+shared+1024)), nil
}
