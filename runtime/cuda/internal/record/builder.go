package record

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/device"
	"github.com/essmc/essmc/runtime/lowering"
)

// Builder is device.Builder with the buffers of package kernel, and with its calls as work.
type Builder struct{ *device.Builder }

// NewBuilder returns an empty builder.
func NewBuilder(d *lowering.Binding) *Builder { return &Builder{device.NewBuilder(d)} }

// Call is a call of a kernel as work of a unit.
type Call struct{ kernel.Call }

// Name returns the kernel's name.
func (c *Call) Name() string { return c.Code.Name }

// Buffers calls f for the buffers among the arguments.
func (c *Call) Buffers(f func(device.Buffer)) {
	for _, a := range c.Args {
		f(device.Buffer(a.Buffer))
	}
}

// Launch adds launches. It ignores grids without blocks.
func (b *Builder) Launch(calls ...kernel.Call) {
	for _, c := range calls {
		if c.Grid.X != 0 && c.Grid.Y != 0 && c.Grid.Z != 0 {
			b.Builder.Launch(&Call{c})
		}
	}
}

// Memory, Uses, Buffer, Float32, Constant, Derived, Weights, Scratch, Zeros, Fault, Fill, FillAt, Copy and CopyAt are
// the methods of device.Builder.

func (b *Builder) Memory(x kernel.Buffer) device.Memory { return b.Builder.Memory(device.Buffer(x)) }

func (b *Builder) Uses(v *lowering.Value) kernel.Buffer { return kernel.Buffer(b.Builder.Uses(v)) }

func (b *Builder) Buffer(v *lowering.Value) kernel.Buffer { return kernel.Buffer(b.Builder.Buffer(v)) }

func (b *Builder) Float32(v *lowering.Value) (kernel.Buffer, bool) {
	x, ok := b.Builder.Float32(v)
	return kernel.Buffer(x), ok
}

func (b *Builder) Constant(key string, make func() []byte) kernel.Buffer {
	return kernel.Buffer(b.Builder.Constant(key, make))
}

func (b *Builder) Derived(key string, make func() []byte, steps ...*lowering.Step) kernel.Buffer {
	return kernel.Buffer(b.Builder.Derived(key, make, steps...))
}

func (b *Builder) Weights(v *lowering.Value, layout string, make func() []byte) kernel.Buffer {
	return kernel.Buffer(b.Builder.Weights(v, layout, make))
}

func (b *Builder) Scratch(bytes int) kernel.Buffer { return kernel.Buffer(b.Builder.Scratch(bytes)) }

func (b *Builder) Zeros(bytes int) kernel.Buffer { return kernel.Buffer(b.Builder.Zeros(bytes)) }

func (b *Builder) Fault(message string) kernel.Buffer { return kernel.Buffer(b.Builder.Fault(message)) }

func (b *Builder) Fill(x kernel.Buffer, value byte, bytes int) { b.FillAt(x, 0, value, bytes) }

func (b *Builder) FillAt(x kernel.Buffer, at int, value byte, bytes int) {
	b.Builder.Fill(device.Buffer(x), at, value, bytes)
}

func (b *Builder) Copy(dst, src kernel.Buffer, bytes int) { b.CopyAt(dst, 0, src, 0, bytes) }

func (b *Builder) CopyAt(dst kernel.Buffer, dstAt int, src kernel.Buffer, srcAt int, bytes int) {
	b.Builder.Copy(device.Buffer(dst), dstAt, device.Buffer(src), srcAt, bytes)
}

// Precision returns how the unit computes a dense product with n × k constant weights: in the precision of the
// options, unless the matrix is small.
func (b *Builder) Precision(n, k int) kernel.Precision {
	p, name := kernel.Float32, ""
	switch c := &b.Binding.Program.Config; {
	case c.TF32:
		p, name = kernel.TF32, "tf32"
	case c.Products == tensor.BFloat16:
		p, name = kernel.BF16, "bf16"
	default:
		return p
	}
	if small := lowering.SmallProduct(n, k); small != "" {
		b.Products(device.Form{Name: "float32", Why: small})
		return kernel.Float32
	}
	b.Products(device.Form{Name: name})
	return p
}
