// Package kernel generates the kernels of the CUDA backend as PTX. They work on buffers in the memory of a device
// and do not depend on a graph: products with epilogues, scans, fused elementwise operators, norms, reductions,
// transforms, gathers, convolutions, attention.
//
// Each kernel is a function in its own file. The function takes the parameters that are fixed at compile time (tile
// sizes, expressions, types, and shapes where that pays) and the buffers and sizes of a launch, and returns Calls. A
// function beside it prepares the weights on the host: order, halves for tensor cores, powers in float64.
//
// Its invariants: each sum has a fixed order that depends only on shapes, so answers are bitwise the same from run
// to run, and on every card whose tensor cores round partial sums alike. Kernels use no atomic floating-point
// additions, and no block waits for another. Each kernel is compared with a plain evaluation in float64 on the
// emulator, at odd sizes.
//
// The package imports ir/scalar, ir/tensor (for element types), ops/fft (for tables), runtime/cuda/ptx and
// runtime/cuda/driver.
package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Code is a kernel in PTX. Equal kernels have equal Text; a backend compiles each Text once.
type Code struct {
	Name   string // of the kernel's entry
	Text   string // a module with only this kernel
	Params []ptx.Param
	Bytes  int // of all parameters
	// Threads is the number of threads of a block.
	Threads int
	// Dynamic is the dynamic shared memory of a launch in bytes, in addition to what the kernel declares.
	Dynamic int
}

// New returns the code of a kernel that build writes. Its name is shown in profiles and messages. It consists of
// letters, digits and _.
func New(name string, threads int, build func(k *ptx.Kernel)) *Code {
	m := ptx.NewModule()
	k := m.Kernel(name)
	k.Threads = threads
	build(k)
	c := &Code{Name: name, Text: m.Text(), Params: k.Params(), Bytes: k.ParamBytes(), Threads: threads,
		Dynamic: k.DynamicBytes()}
	if made != nil {
		made(c)
	}
	return c
}

// made is called with each new code. Tests set it.
var made func(c *Code)

// Buffer represents memory of a device: of a value, a constant, or scratch. Its meaning is up to the maker of the
// calls. 0 means none: its address is 0.
type Buffer int32

// Call is a launch of a kernel.
type Call struct {
	Code *Code
	Grid driver.Dim
	Args []Arg // one for each of Code.Params
}

// NewCall returns a call. It panics if the arguments do not match the code's parameters.
func NewCall(c *Code, grid driver.Dim, args ...Arg) Call {
	if len(args) != len(c.Params) {
		panic(fmt.Sprintf("kernel %s: expected %d arguments, found %d", c.Name, len(c.Params), len(args)))
	}
	for i, a := range args {
		if a.size != c.Params[i].Size {
			panic(fmt.Sprintf("kernel %s: parameter %s is of %d bytes, the argument of %d", c.Name, c.Params[i].Name,
				c.Params[i].Size, a.size))
		}
	}
	return Call{Code: c, Grid: grid, Args: args}
}

// Arg is the value of a parameter.
type Arg struct {
	Buffer Buffer // for a pointer
	bits   uint64 // a number, or the offset from the start of the buffer, in bytes
	size   int
	ptr    bool
}

// Ptr returns the address of a buffer as an argument.
func Ptr(b Buffer) Arg { return PtrAt(b, 0) }

// PtrAt returns the address at an offset in a buffer as an argument.
func PtrAt(b Buffer, bytes int) Arg { return Arg{Buffer: b, bits: uint64(bytes), size: 8, ptr: true} }

// U32 returns a number as an argument. It panics if x does not fit in 32 bits; callers must check sizes.
func U32(x int) Arg {
	if x < 0 || uint64(x) > math.MaxUint32 {
		panic(fmt.Sprintf("kernel: %d is not of 32 bits", x))
	}
	return Arg{bits: uint64(x), size: 4}
}

// S32 returns a signed number as an argument.
func S32(x int) Arg {
	if x != int(int32(x)) {
		panic(fmt.Sprintf("kernel: %d is not of 32 bits", x))
	}
	return Arg{bits: uint64(uint32(int32(x))), size: 4}
}

// U64 returns a number as an argument.
func U64(x int) Arg { return Arg{bits: uint64(x), size: 8} }

// F32 returns a number as an argument.
func F32(x float32) Arg { return Arg{bits: uint64(math.Float32bits(x)), size: 4} }

// F64 returns a number as an argument.
func F64(x float64) Arg { return Arg{bits: math.Float64bits(x), size: 8} }

// Pack returns the parameters as a launch takes them. address returns the addresses of buffers.
func (c *Call) Pack(address func(Buffer) driver.Ptr) []byte {
	b := make([]byte, c.Code.Bytes)
	for i, a := range c.Args {
		x, at := a.bits, c.Code.Params[i].Offset
		if a.ptr && a.Buffer != 0 {
			x += uint64(address(a.Buffer))
		}
		if a.size == 4 {
			binary.LittleEndian.PutUint32(b[at:], uint32(x))
		} else {
			binary.LittleEndian.PutUint64(b[at:], x)
		}
	}
	return b
}

// Launch returns the call in the driver's form.
func (c *Call) Launch(f driver.Function, s driver.Stream, address func(Buffer) driver.Ptr) driver.Launch {
	return driver.Launch{Func: f, Grid: c.Grid, Block: driver.Dim{X: uint32(c.Code.Threads), Y: 1, Z: 1},
		Shared: uint32(c.Code.Dynamic), Stream: s, Params: c.Pack(address)}
}
