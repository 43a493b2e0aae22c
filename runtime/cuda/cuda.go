package cuda

import (
	"fmt"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // operators that plans hold
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/lowering"
)

// Options configure the backend.
type Options struct {
	// Device is the number of the card, from 0, as the driver counts.
	Device int
	// Fallback says who computes operators without a kernel: "" for nobody, so that models with such an operator are
	// refused by name, or "cpu" for the processor, which evaluates them in float64 as they are defined. Their inputs and
	// results are copied in each run.
	Fallback string
}

// Least is what a card and its driver must have.
const (
	leastMajor   = 8     // compute capability 8.0
	leastVersion = 11020 // of CUDA: 11.2, for pools of memory
)

// New returns the backend for a card. It looks at the card, and uses none of it before the first program is compiled.
func New(d driver.Driver, o Options) (runtime.Backend, error) {
	if o.Fallback != "" && o.Fallback != "cpu" {
		return nil, &runtime.OptionError{Option: "Fallback", Msg: fmt.Sprintf(`expected "" or "cpu", found %q`, o.Fallback)}
	}
	if err := d.Init(); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	version, err := d.Version()
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	if version < leastVersion {
		return nil, fmt.Errorf("cuda: the driver is for CUDA %s: at least %s is needed, install a newer one",
			versionText(version), versionText(leastVersion))
	}
	count, err := d.DeviceCount()
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	if o.Device < 0 || o.Device >= count {
		return nil, &runtime.OptionError{Option: "Device", Msg: fmt.Sprintf("the driver has %d devices, from 0 on: found %d",
			count, o.Device)}
	}
	b := &backend{drv: d, num: driver.Device(o.Device), fallback: o.Fallback != ""}
	name, err := d.DeviceName(b.num)
	if err != nil {
		return nil, fmt.Errorf("cuda: device %d: %w", o.Device, err)
	}
	b.device = fmt.Sprintf("device %d (%s)", o.Device, name)
	var attributes [3]int
	for i, a := range []driver.Attribute{driver.ComputeMajor, driver.ComputeMinor, driver.MemoryPools} {
		if attributes[i], err = d.DeviceAttribute(b.num, a); err != nil {
			return nil, fmt.Errorf("cuda: %s: %w", b.device, err)
		}
	}
	if attributes[0] < leastMajor {
		return nil, fmt.Errorf("cuda: %s has compute capability %d.%d: at least %d.0 is needed", b.device, attributes[0],
			attributes[1], leastMajor)
	}
	if attributes[2] == 0 {
		return nil, fmt.Errorf("cuda: %s has no pools of memory", b.device)
	}
	return b, nil
}

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

type backend struct {
	drv      driver.Driver
	num      driver.Device
	device   string // for messages
	fallback bool
	bare     bool // has no kernels: of tests

	mu    sync.Mutex
	open  *device // while programs use it
	users int
}

func (*backend) Name() string          { return "cuda" }
func (*backend) Resolver() ir.Resolver { return ops.Default }

// acquire returns the device for a program, and opens it for the first.
func (b *backend) acquire() (*device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		v, err := openDevice(b.drv, b.num, b.device)
		if err != nil {
			return nil, err
		}
		b.open = v
	}
	b.users++
	return b.open, nil
}

// release closes the device after the last program.
func (b *backend) release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users--; b.users > 0 {
		return nil
	}
	v := b.open
	b.open = nil
	return v.close()
}

// Compile lowers g. It returns a *runtime.UnsupportedError for a node that has no kernel, and a *runtime.OptionError for
// options that the backend does not have: float64, observers, and products in types other than float32 and bfloat16.
func (b *backend) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	if c.Wide {
		return nil, &runtime.OptionError{Option: "Precision",
			Msg: "the cuda backend computes in float32; the ref backend offers float64"}
	}
	if p := c.Products; p != tensor.Invalid && p != tensor.Float32 && p != tensor.BFloat16 {
		return nil, &runtime.OptionError{Option: "Precision",
			Msg: fmt.Sprintf("the cuda backend has products in float32 and bfloat16, not in %v", p)}
	}
	if c.Observe != nil {
		return nil, &runtime.OptionError{Option: "Observe",
			Msg: "the cuda backend replaces operators by their bodies and cannot show all values; the ref backend can"}
	}
	l := &lowerer{fallback: b.fallback, bare: b.bare}
	p, err := lowering.Lower(g, c, l)
	if err == nil {
		err = l.refusal()
	}
	if err != nil {
		return nil, err
	}
	v, err := b.acquire()
	if err != nil {
		return nil, err
	}
	return newProgram(p, b, v, c.Constants), nil
}
