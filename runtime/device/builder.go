package device

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// Buffer represents memory of a device: of a value, a constant, or scratch (Builder.Memory). 0 means none: its address
// is 0.
type Buffer int32

// Builder records the work of the units of one executable, in order. Records add work; the backend sets the unit
// that they build for (Begin, Keep, Drop), and assigns memory to buffers.
type Builder struct {
	// Binding has shapes, types and constants. Its Program.Config has the options, such as the precision of
	// products.
	Binding *lowering.Binding

	buffers []Memory // by Buffer - 1
	values  map[*lowering.Value]Buffer
	keyed   map[Key]Buffer
	views   map[*lowering.Value]*lowering.Value

	unit   Unit // under construction
	added  []*lowering.Value
	noted  []Key
	viewed []*lowering.Value
	before int // number of buffers
	node   *ir.Node
}

// NewBuilder returns an empty builder.
func NewBuilder(d *lowering.Binding) *Builder {
	return &Builder{Binding: d, values: map[*lowering.Value]Buffer{}, keyed: map[Key]Buffer{},
		views: map[*lowering.Value]*lowering.Value{}}
}

// Memory is the meaning of a Buffer: exactly one of its fields is set.
type Memory struct {
	// Value is in the memory that the backend chooses for a constant, a settled value, an input, or a value of the
	// arena.
	Value *lowering.Value
	// Constant is data derived from constants and settled values.
	Constant *Constant
	// Scratch is memory of one unit, in bytes.
	Scratch int
	// Zeros is memory of one unit, in bytes, that is zero at the start of a run.
	Zeros int
	// Fault is the error message of a run in which the buffer's four bytes become nonzero.
	Fault string
}

// Constant is data in the memory of a device that are computed once and stay there. Data that follow from settled
// values are computed again in that memory for each new content.
type Constant struct {
	Key Key
	// Make returns the bytes, as many each time. It must not keep the Builder or its Binding, which it may outlive.
	Make func() []byte
	// From are the tensors of the settled values that Make reads, as lowering.SettledOf returns them; nil if there are
	// none.
	From []*tensor.Tensor
}

// Key identifies data derived from constants.
type Key struct {
	Of   any    // the *tensor.Tensor or *ir.Node that they belong to
	Name string // which of its data
}

// Unit is the work of one unit of execution.
type Unit struct {
	Work []Work
	// Cost is the sum of Builder.Work.
	Cost ir.Work
	// Form describes how the unit computes a recurrence or a convolution; it is the zero Form for other units.
	Form Form
	// Products describes how the unit's dense products are computed if an option requests lower precision; for
	// float32 it includes the reason.
	Products Form
}

// Form is one of several ways to compute something.
type Form struct {
	Name string // "scan", "fft", "direct"; "tf32", "bf16", "float32"
	Why  string
	Not  []Form // the other forms, with the reasons against them
}

// Work is one item: a launch, a Fill or a Copy.
type Work struct {
	Kind   WorkKind
	Launch Launch // for Launches
	// For Fill and Copy, in bytes; Src only for Copy, Byte only for Fill.
	Dst, Src     Buffer
	DstAt, SrcAt int
	Bytes        int
	Byte         byte
}

// WorkKind is the kind of an item of work.
type WorkKind int8

// The kinds of work. Copies between host and device are only Commands.
const (
	Launches WorkKind = iota
	Fill
	Copy
	ToDevice
	ToHost
)

// Begin starts the unit that the next calls build. node scopes the keys of Constant.
func (b *Builder) Begin(node *ir.Node) {
	b.unit, b.added, b.noted, b.viewed, b.before, b.node = Unit{}, nil, nil, nil, len(b.buffers), node
}

// Keep ends a unit, and returns its work.
func (b *Builder) Keep() Unit {
	u := b.unit
	b.Begin(nil)
	return u
}

// Drop ends a unit, and discards everything that was built for it.
func (b *Builder) Drop() {
	b.buffers = b.buffers[:b.before]
	for _, v := range b.added {
		delete(b.values, v)
	}
	for _, k := range b.noted {
		delete(b.keyed, k)
	}
	for _, v := range b.viewed {
		delete(b.views, v)
	}
	b.Begin(nil)
}

// Memory returns the meaning of a buffer.
func (b *Builder) Memory(x Buffer) Memory { return b.buffers[x-1] }

// Buffers returns the number of buffers: they are 1 to Buffers.
func (b *Builder) Buffers() int { return len(b.buffers) }

// Uses returns the buffer of a value, or 0 if it has none yet.
func (b *Builder) Uses(v *lowering.Value) Buffer { return b.values[b.Root(v)] }

// Root returns the value whose memory v uses: v itself unless View has shared it.
func (b *Builder) Root(v *lowering.Value) *lowering.Value {
	for b.views[v] != nil {
		v = b.views[v]
	}
	return v
}

func (b *Builder) buffer(m Memory) Buffer {
	b.buffers = append(b.buffers, m)
	return Buffer(len(b.buffers))
}

// Buffer returns the elements of a value, in its type and in row-major order, as ir/tensor has them; a bool is a
// byte of 0 or 1. The address is a multiple of 256, unless View has moved only names. It is 0 for nil, for an absent
// optional input, and for a tensor without elements.
func (b *Builder) Buffer(v *lowering.Value) Buffer {
	if v == nil || b.Binding.Missing(v) {
		return 0
	}
	v = b.Root(v)
	if x, ok := b.values[v]; ok {
		return x
	}
	shape := b.Binding.Shape(v)
	if shape == nil {
		panic(fmt.Sprintf("device: value %s has no known shape, a record asks for its memory", v.Name))
	}
	if n, _ := tensor.Size(shape); n == 0 {
		return 0
	}
	x := b.buffer(Memory{Value: v})
	b.values[v] = x
	b.added = append(b.added, v)
	return x
}

// Bytes returns the size of a value's elements.
func (b *Builder) Bytes(v *lowering.Value) int {
	n, _ := tensor.Size(b.Binding.Shape(v))
	return tensor.ByteSize(b.Binding.DType(v), n)
}

// View makes out, an output of the step, share the memory of in; their bytes are equal, as in Reshape. It returns
// false if that is impossible; the step must then copy.
func (b *Builder) View(out, in *lowering.Value) bool {
	d := b.Binding
	if b.values[out] != 0 || b.views[out] != nil || d.Fixed(in) != nil || b.Bytes(in) != b.Bytes(out) {
		return false
	}
	b.views[out] = in
	b.viewed = append(b.viewed, out)
	return true
}

// Constant returns data that belong to the step and follow from its attributes and sizes: tables of twiddle factors, of
// windows. make returns their bytes; it is called when the first executable of the program needs them. All executables
// share the data. key identifies them among the step's data. It must contain the sizes that they depend on: "twiddle
// 512".
func (b *Builder) Constant(key string, make func() []byte) Buffer {
	return b.keep(Key{b.node, key}, make, nil)
}

// Derived is Constant for data that also follow from the constant and settled inputs of steps, such as coefficients and
// powers. make reads them (Numbers) each time that it is called.
func (b *Builder) Derived(key string, make func() []byte, steps ...*lowering.Step) Buffer {
	var from []*tensor.Tensor
	for _, s := range steps {
		from = append(from, lowering.SettledOf(s.In)...)
	}
	return b.keep(Key{b.node, key}, make, from)
}

// Weights returns a constant or settled value in another layout: split for tensor cores, transposed, in float64. make
// returns its bytes. All programs of a model share the data of a layout. Its name must contain everything that they
// depend on apart from the elements: "3xtf32 128x64".
func (b *Builder) Weights(v *lowering.Value, layout string, make func() []byte) Buffer {
	return b.keep(Key{b.Binding.Fixed(v), layout}, make, lowering.SettledOf([]*lowering.Value{v}))
}

// Float32 returns the elements of a value in float32. A constant or settled value of another type is rounded, in the
// same order. It returns false for other values of another type, and for those that are not numbers.
func (b *Builder) Float32(v *lowering.Value) (Buffer, bool) {
	if v == nil || b.Binding.Missing(v) || b.Binding.IsFloat32(v) {
		return b.Buffer(v), true
	}
	t := b.Binding.Fixed(v)
	if t == nil || t.ReadFloat64s(nil, 0) != nil { // not numbers
		return 0, false
	}
	if t.Len() == 0 {
		return 0, true
	}
	return b.Weights(v, "float32", func() []byte {
		out := make([]byte, 0, 4*t.Len())
		x, _ := t.Float64s()
		for _, v := range x {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
		}
		return out
	}), true
}

func (b *Builder) keep(k Key, make func() []byte, from []*tensor.Tensor) Buffer {
	if x, ok := b.keyed[k]; ok {
		return x
	}
	x := b.buffer(Memory{Constant: &Constant{k, make, from}})
	b.keyed[k] = x
	b.noted = append(b.noted, k)
	return x
}

// Scratch returns memory that only the step uses, with undefined content. For 0 bytes it returns no buffer.
func (b *Builder) Scratch(bytes int) Buffer {
	if bytes == 0 {
		return 0
	}
	if bytes < 0 {
		panic(fmt.Sprintf("device: %d bytes of scratch memory", bytes))
	}
	return b.buffer(Memory{Scratch: bytes})
}

// Zeros returns memory that only the step uses. Its bytes are zero at the start of each run of the step's graph or
// loop body. For 0 bytes it returns no buffer.
func (b *Builder) Zeros(bytes int) Buffer {
	if bytes == 0 {
		return 0
	}
	return b.buffer(Memory{Zeros: bytes})
}

// Fault returns a 32-bit number that is zero when the work of the step starts. If a kernel changes it, the run fails
// with the message, as an error of the step. It is for inputs that the operator refuses by their content, such as an
// index out of range. The kernel must end as usual, and access only its buffers.
func (b *Builder) Fault(message string) Buffer { return b.buffer(Memory{Fault: message}) }

// Launch adds a launch.
func (b *Builder) Launch(l Launch) { b.unit.Work = append(b.unit.Work, Work{Launch: l}) }

// Fill adds work that sets bytes of x, from offset at on, to value.
func (b *Builder) Fill(x Buffer, at int, value byte, bytes int) {
	if bytes > 0 {
		b.unit.Work = append(b.unit.Work, Work{Kind: Fill, Dst: x, DstAt: at, Byte: value, Bytes: bytes})
	}
}

// Copy adds a copy between offsets. The ranges must not overlap.
func (b *Builder) Copy(dst Buffer, dstAt int, src Buffer, srcAt int, bytes int) {
	if bytes > 0 {
		b.unit.Work = append(b.unit.Work, Work{Kind: Copy, Dst: dst, DstAt: dstAt, Src: src, SrcAt: srcAt, Bytes: bytes})
	}
}

// Form records how the unit computes a recurrence or a convolution, for display. A fusion records it for the step
// that has forms.
func (b *Builder) Form(f Form) { b.unit.Form = f }

// Products records how the unit computes dense products, for display; see Unit.Products. The reason for float32 stands
// only if no product is in the requested precision.
func (b *Builder) Products(f Form) {
	if f.Why == "" || b.unit.Products.Name == "" {
		b.unit.Products = f
	}
}

// Work adds to the estimate of the unit's work, for display.
func (b *Builder) Work(w ir.Work) {
	b.unit.Cost.Flops += w.Flops
	b.unit.Cost.Bytes += w.Bytes
}

// String describes the data of a key, for messages.
func (k Key) String() string {
	switch of := k.Of.(type) {
	case *tensor.Tensor:
		return fmt.Sprintf("%s %s", of, k.Name)
	case *ir.Node:
		return fmt.Sprintf("%s of node %v", k.Name, of)
	}
	return k.Name
}

// decision identifies what is decided by the content of a node's inputs.
type decision struct {
	node *ir.Node
	name string
}

// Decided returns what f finds about the constant and settled inputs of a step, such as whether a system is stable. If
// one is settled, f is called again for each new content; executables are bound anew if it finds otherwise. name
// distinguishes what is decided by one step. f must not keep the Builder or its Binding.
func (b *Builder) Decided(s *lowering.Step, name string, f func() bool) bool {
	from := lowering.SettledOf(s.In)
	if from == nil {
		return f()
	}
	c := b.Binding.Program.Config.Constants
	return *c.Settled(from, nil, decision{s.Node, name}, func() (any, func(context.Context) error) {
		found := f()
		return &found, func(context.Context) error {
			if now := f(); now != found {
				found = now
				c.Choose()
			}
			return nil
		}
	}).(*bool)
}
