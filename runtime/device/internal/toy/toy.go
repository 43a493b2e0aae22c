// Package toy is a backend for a device in slices. As the second user of runtime/device, it shows that nothing there is
// specific to CUDA, and it is the shortest example of such a backend. The device has kernels for some operators
// (kernels.go); the host computes all others.
//
// The device (card.go) checks what runtime/device promises. Its memory has addresses of its own, so work that gets a
// value of the host fails, and so do copies to memory of the host that is not AllocateHost's. New memory reads as NaN.
// Work waits until Synchronize, so the host reads nothing too early. A device with memory that was not freed fails to
// close.
//
// The package imports ir, ops, runtime, runtime/device and runtime/lowering.
package toy

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // operators that models hold
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/device"
)

// New returns the backend.
func New() runtime.Backend { return newBackend() }

func newBackend() *backend {
	return &backend{device.Backend{Name: "toy", Operators: operators{}, Fallback: true, Idle: 1 << 10,
		Open: func() (device.Device, error) { return &card{next: 1 << 20}, nil }}}
}

type backend struct{ device.Backend }

func (*backend) Name() string          { return "toy" }
func (*backend) Resolver() ir.Resolver { return ops.Default }

// Compile refuses the options that the device does not have.
func (b *backend) Compile(g *ir.Graph, c runtime.Config) (runtime.Program, error) {
	if c.Wide || c.Products != tensor.Invalid && c.Products != tensor.Float32 {
		return nil, &runtime.OptionError{Option: "Precision", Msg: "the toy device computes in float32"}
	}
	if c.TF32 {
		return nil, &runtime.OptionError{Option: "TF32", Msg: "the toy device computes in float32"}
	}
	if c.Observe != nil {
		return nil, &runtime.OptionError{Option: "Observe",
			Msg: "the toy backend replaces operators by their bodies and cannot show all values"}
	}
	return b.Backend.Compile(g, c)
}
