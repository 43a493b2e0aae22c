package cuda

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // operators that occur in plans
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/device"
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
	b := &backend{keep: keepBytes}
	b.Backend = device.Backend{Name: "cuda", Operators: operators{}, Fallback: o.Fallback != "", Idle: idleBytes,
		Open: func() (device.Device, error) { return openCard(d, card.Device, card.String(), b.keep) }}
	return b, nil
}

type backend struct {
	device.Backend
	keep uint64 // free bytes that the pool keeps
}

func (*backend) Name() string          { return "cuda" }
func (*backend) Resolver() ir.Resolver { return ops.Default }

// Compile lowers g. It returns a *runtime.UnsupportedError for a node that has no kernel, and a *runtime.OptionError
// for options that the backend does not have: float64, observers, and products in types other than float32 and
// bfloat16.
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
	return b.Backend.Compile(g, c)
}
