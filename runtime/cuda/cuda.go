package cuda

import (
	"fmt"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // operators that occur in plans
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/lowering"
)

// Options configure the backend.
type Options struct {
	// Device is the number of the card, from 0, in the driver's order.
	Device int
	// Fallback selects what computes operators without a kernel: "" for nothing, so that models with such an
	// operator are refused by name, or "cpu" for the processor, which evaluates them in float64 by their definition.
	// Their inputs and results are then copied in each run.
	Fallback string
}

// New returns the backend for a card. It checks the card, but allocates nothing on it before the first program is
// compiled.
func New(d driver.Driver, o Options) (runtime.Backend, error) {
	if o.Fallback != "" && o.Fallback != "cpu" {
		return nil, &runtime.OptionError{Option: "Fallback", Msg: fmt.Sprintf(`expected "" or "cpu", found %q`, o.Fallback)}
	}
	if err := driver.Start(d); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	count, err := d.DeviceCount()
	if err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	if o.Device < 0 || o.Device >= count {
		return nil, &runtime.OptionError{Option: "Device", Msg: fmt.Sprintf("the driver has %d devices, from 0 on: found %d",
			count, o.Device)}
	}
	card, err := driver.Describe(d, driver.Device(o.Device))
	if err != nil {
		return nil, fmt.Errorf("cuda: %v: %w", card, err)
	}
	if err := card.Check(); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	return &backend{drv: d, num: card.Device, device: card.String(), fallback: o.Fallback != "", idle: idleBytes,
		keep: keepBytes}, nil
}

type backend struct {
	drv      driver.Driver
	num      driver.Device
	device   string // for messages
	fallback bool
	bare     bool        // has no kernels; for tests
	idle     int         // bytes of unused tables to keep
	keep     uint64      // free bytes that the pool keeps
	inspect  func(*plan) // gets each plan before its memory is allocated; for tests

	mu    sync.Mutex
	open  *device // nil when no program uses it
	users int
}

func (*backend) Name() string          { return "cuda" }
func (*backend) Resolver() ir.Resolver { return ops.Default }

// acquire returns the device for a program, and opens it for the first one.
func (b *backend) acquire() (*device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		v, err := openDevice(b.drv, b.num, b.device, b.keep)
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
