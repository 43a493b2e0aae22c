package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Builder takes down the work of the units of one executable, in order. Records add work; the backend says which unit they
// build for (Begin, Keep, Drop), and gives buffers their memory.
type Builder struct {
	// Binding holds shapes, types and constants. Its Program.Config holds the options, such as the precision of products.
	Binding *lowering.Binding

	buffers []Memory // by kernel.Buffer - 1
	values  map[*lowering.Value]kernel.Buffer
	keyed   map[Key]kernel.Buffer
	views   map[*lowering.Value]*lowering.Value

	unit   Unit // being built
	added  []*lowering.Value
	noted  []Key
	viewed []*lowering.Value
	before int // of buffers
	node   *ir.Node
}

// NewBuilder returns a builder without work.
func NewBuilder(d *lowering.Binding) *Builder {
	return &Builder{Binding: d, values: map[*lowering.Value]kernel.Buffer{}, keyed: map[Key]kernel.Buffer{},
		views: map[*lowering.Value]*lowering.Value{}}
}

// Memory is the meaning of a Buffer: exactly one of its fields is set.
type Memory struct {
	// Value lies where the backend puts it: a constant, an input, or a value of the arena.
	Value *lowering.Value
	// Constant is data that follow from constants.
	Constant *Constant
	// Scratch is memory of one unit, in bytes.
	Scratch int
	// Zeros is memory of one unit, in bytes, that is zero when a run begins.
	Zeros int
	// Fault is the message of a run in which the four bytes there are not zero.
	Fault string
}

// Constant is data in the memory of a device that are made once and stay.
type Constant struct {
	Key Key
	// Make returns the bytes. It is called at most once for a Key.
	Make func() []byte
}

// Key names data that follow from constants.
type Key struct {
	Of   any    // the *tensor.Tensor or the *ir.Node that they belong to
	Name string // which data of these
}

// Unit is the work of one unit of execution.
type Unit struct {
	Work []Work
	// Cost is the sum of Builder.Work.
	Cost ir.Work
	// Form is how it computes a recurrence or a convolution; the zero Form for other units.
	Form Form
	// Products is how its dense products are computed, where an option asks for a lower precision: for float32 the reason, too.
	Products Form
}

// Form is how a unit computes something that there are several ways for.
type Form struct {
	Name string // "scan", "fft", "direct"; "tf32", "bf16", "float32"
	Why  string
	Not  []Form // the other forms, with the reasons against them
}

// Work is one item: a launch, a Fill or a Copy.
type Work struct {
	Call *kernel.Call // nil: see Kind
	Kind WorkKind
	// Of Fill and Copy, in bytes; Src of Copy alone, Byte of Fill alone.
	Dst, Src     kernel.Buffer
	DstAt, SrcAt int
	Bytes        int
	Byte         byte
}

// WorkKind is the kind of an item of work.
type WorkKind int8

// The kinds of work.
const (
	Launch WorkKind = iota
	Fill
	Copy
)

// Begin starts the unit that the next calls build for. node scopes the keys of Constant.
func (b *Builder) Begin(node *ir.Node) {
	b.unit, b.added, b.noted, b.viewed, b.before, b.node = Unit{}, nil, nil, nil, len(b.buffers), node
}

// Keep ends a unit, and returns its work.
func (b *Builder) Keep() Unit {
	u := b.unit
	b.Begin(nil)
	return u
}

// Drop ends a unit, and forgets all that was built for it.
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
func (b *Builder) Memory(x kernel.Buffer) Memory { return b.buffers[x-1] }

// Buffers returns the number of buffers: they are 1 to Buffers.
func (b *Builder) Buffers() int { return len(b.buffers) }

// Uses returns the buffer of a value that has one by now; 0 for others.
func (b *Builder) Uses(v *lowering.Value) kernel.Buffer { return b.values[b.Root(v)] }

// Root returns the value in whose memory v lies: v itself unless View says otherwise.
func (b *Builder) Root(v *lowering.Value) *lowering.Value {
	for b.views[v] != nil {
		v = b.views[v]
	}
	return v
}

func (b *Builder) buffer(m Memory) kernel.Buffer {
	b.buffers = append(b.buffers, m)
	return kernel.Buffer(len(b.buffers))
}

// Buffer returns the elements of a value, in its type and in row-major order, as ir/tensor has them: a bool is a byte of 0 or
// 1. The address is a multiple of 256, except where View has moved nothing but names. It is 0 for nil, for an optional
// input that is not given, and for a tensor without elements.
func (b *Builder) Buffer(v *lowering.Value) kernel.Buffer {
	if v == nil || b.Binding.Missing(v) {
		return 0
	}
	v = b.Root(v)
	if x, ok := b.values[v]; ok {
		return x
	}
	shape := b.Binding.Shape(v)
	if shape == nil {
		panic(fmt.Sprintf("cuda: value %s has no known shape, a record asks for its memory", v.Name))
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

// View lets out, an output of the step, lie where in lies: their bytes are equal, as those of Reshape. It returns false where
// that cannot be; then the step copies.
func (b *Builder) View(out, in *lowering.Value) bool {
	d := b.Binding
	if b.values[out] != 0 || b.views[out] != nil || d.Constant(in) != nil || b.Bytes(in) != b.Bytes(out) {
		return false
	}
	b.views[out] = in
	b.viewed = append(b.viewed, out)
	return true
}

// Constant returns data that belong to the step: tables, coefficients, powers. make returns their bytes, and is called when
// the first executable of the program needs them; all of them share the data. key tells which of the step's data they are,
// with all that they depend on beside the step's constants, such as sizes: "twiddle 512".
func (b *Builder) Constant(key string, make func() []byte) kernel.Buffer {
	return b.keep(Key{b.node, key}, make)
}

// Weights returns a constant in another layout: split for tensor cores, transposed, in float64. make returns its bytes. All
// programs of a model share the data of a layout, whose name tells all that they depend on beside the elements:
// "3xtf32 128x64".
func (b *Builder) Weights(t *tensor.Tensor, layout string, make func() []byte) kernel.Buffer {
	return b.keep(Key{t, layout}, make)
}

// Float32 returns the elements of a value in float32: of a constant of another type, rounded and in the same order. It
// returns false for other values of another type, and for constants that are no numbers.
func (b *Builder) Float32(v *lowering.Value) (kernel.Buffer, bool) {
	if v == nil || b.Binding.Missing(v) || b.Binding.IsFloat32(v) {
		return b.Buffer(v), true
	}
	t := b.Binding.Constant(v)
	if t == nil {
		return 0, false
	}
	x, err := t.Float64s()
	if err != nil || len(x) == 0 {
		return 0, err == nil
	}
	return b.Weights(t, "float32", func() []byte {
		out := make([]byte, 0, 4*len(x))
		for _, v := range x {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
		}
		return out
	}), true
}

func (b *Builder) keep(k Key, make func() []byte) kernel.Buffer {
	if x, ok := b.keyed[k]; ok {
		return x
	}
	x := b.buffer(Memory{Constant: &Constant{k, make}})
	b.keyed[k] = x
	b.noted = append(b.noted, k)
	return x
}

// Scratch returns memory for the step alone. Its content is undefined. 0 bytes are no buffer.
func (b *Builder) Scratch(bytes int) kernel.Buffer {
	if bytes == 0 {
		return 0
	}
	if bytes < 0 {
		panic(fmt.Sprintf("cuda: %d bytes of scratch memory", bytes))
	}
	return b.buffer(Memory{Scratch: bytes})
}

// Zeros returns memory for the step alone. Its bytes are zero when a run begins, of the graph or body that the step is of. 0 bytes
// are no buffer.
func (b *Builder) Zeros(bytes int) kernel.Buffer {
	if bytes == 0 {
		return 0
	}
	return b.buffer(Memory{Zeros: bytes})
}

// Fault returns a number of 32 bits that is zero when the work of the step begins. If a kernel sets it to another one, the run
// fails with the message, as an error of the step: for inputs that the operator refuses by their content, such as an index
// out of range. The kernel must end as usual, and touch nothing beyond its buffers.
func (b *Builder) Fault(message string) kernel.Buffer { return b.buffer(Memory{Fault: message}) }

// Launch adds a launch. A grid without blocks is none.
func (b *Builder) Launch(c kernel.Call) {
	if c.Grid.X == 0 || c.Grid.Y == 0 || c.Grid.Z == 0 {
		return
	}
	b.unit.Work = append(b.unit.Work, Work{Call: &c})
}

// Fill adds that bytes from the start of x are set to value.
func (b *Builder) Fill(x kernel.Buffer, value byte, bytes int) { b.FillAt(x, 0, value, bytes) }

// FillAt is Fill from at bytes behind the start.
func (b *Builder) FillAt(x kernel.Buffer, at int, value byte, bytes int) {
	if bytes > 0 {
		b.unit.Work = append(b.unit.Work, Work{Kind: Fill, Dst: x, DstAt: at, Byte: value, Bytes: bytes})
	}
}

// Copy adds a copy from the start of src to that of dst.
func (b *Builder) Copy(dst, src kernel.Buffer, bytes int) { b.CopyAt(dst, 0, src, 0, bytes) }

// CopyAt is Copy between places behind the starts. They must not overlap.
func (b *Builder) CopyAt(dst kernel.Buffer, dstAt int, src kernel.Buffer, srcAt int, bytes int) {
	if bytes > 0 {
		b.unit.Work = append(b.unit.Work, Work{Kind: Copy, Dst: dst, DstAt: dstAt, Src: src, SrcAt: srcAt, Bytes: bytes})
	}
}

// Form tells how the unit computes a recurrence or a convolution, for people. A fusion tells it of the step that has forms.
func (b *Builder) Form(f Form) { b.unit.Form = f }

// leastLow is the least size of matrices whose products options may lower.
const leastLow = 32

// Precision returns how the unit computes a dense product with constant weights of n × k numbers: in that which the options ask
// for, unless the matrix is small.
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
	if n >= leastLow && k >= leastLow {
		b.unit.Products = Form{Name: name}
		return p
	}
	if b.unit.Products.Name == "" {
		b.unit.Products = Form{Name: "float32", Why: fmt.Sprintf("matrices of %d × %d are smaller than %d × %d", n, k, leastLow, leastLow)}
	}
	return kernel.Float32
}

// Work adds to the estimate of the unit's work, for people.
func (b *Builder) Work(w ir.Work) {
	b.unit.Cost.Flops += w.Flops
	b.unit.Cost.Bytes += w.Bytes
}

// String names the data of a key, for messages.
func (k Key) String() string {
	switch of := k.Of.(type) {
	case *tensor.Tensor:
		return fmt.Sprintf("%v %s", of, k.Name)
	case *ir.Node:
		return fmt.Sprintf("%s of node %v", k.Name, of)
	}
	return k.Name
}
