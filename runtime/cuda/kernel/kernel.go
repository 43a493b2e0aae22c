// Package kernel writes the kernels of the CUDA backend as PTX. They work on buffers in the memory of a device and know no
// graph: products with epilogues, scans, fused elementwise operators, norms, reductions, transforms, gathers, convolutions,
// attention.
//
// A kernel is a function of its own file. It takes what is fixed when the kernel is compiled (sizes of tiles, expressions,
// types, where that pays: shapes), and the buffers and sizes of a launch, and returns Calls. The layout of its
// weights (order, halves for tensor cores, powers in float64) is made on the host by a function beside it.
//
// Always: each sum has a fixed order that depends on shapes alone, so that answers are bitwise the same from run to run and on
// every card with the same tensor cores. No atomic additions of floating-point numbers; no block waits for another. Each kernel is held against a plain
// evaluation in float64, at odd sizes, on the emulator.
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
	Name   string // of the entry
	Text   string // the module that holds this kernel alone
	Params []ptx.Param
	Bytes  int // of all parameters
	// Threads is the number of threads of a block.
	Threads int
	// Dynamic is the shared memory that a launch asks for beside that which the kernel declares, in bytes.
	Dynamic int
}

// New makes the code of a kernel that build writes. Its name is for people: profiles and messages show it. It is made of
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

// made sees each code that is made. Tests set it.
var made func(c *Code)

// Buffer stands for memory of a device: of a value, a constant, or scratch. Whoever makes calls gives buffers their meaning.
// 0 is none: its address is 0.
type Buffer int32

// Call is a launch of a kernel.
type Call struct {
	Code *Code
	Grid driver.Dim
	Args []Arg // one for each of Code.Params
}

// NewCall returns a call with as many arguments as the code has parameters. It panics where they do not fit.
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
	Buffer Buffer // of a pointer
	bits   uint64 // of a number, or the distance from the start of the buffer, in bytes
	size   int
	ptr    bool
}

// Ptr is the address of a buffer.
func Ptr(b Buffer) Arg { return PtrAt(b, 0) }

// PtrAt is the address bytes behind the start of a buffer.
func PtrAt(b Buffer, bytes int) Arg { return Arg{Buffer: b, bits: uint64(bytes), size: 8, ptr: true} }

// U32 is a number. It panics where x is not of 32 bits: callers check sizes.
func U32(x int) Arg {
	if x < 0 || uint64(x) > math.MaxUint32 {
		panic(fmt.Sprintf("kernel: %d is not of 32 bits", x))
	}
	return Arg{bits: uint64(x), size: 4}
}

// S32 is a number with sign.
func S32(x int) Arg {
	if x != int(int32(x)) {
		panic(fmt.Sprintf("kernel: %d is not of 32 bits", x))
	}
	return Arg{bits: uint64(uint32(int32(x))), size: 4}
}

// U64 is a number.
func U64(x int) Arg { return Arg{bits: uint64(x), size: 8} }

// F32 is a number.
func F32(x float32) Arg { return Arg{bits: uint64(math.Float32bits(x)), size: 4} }

// F64 is a number.
func F64(x float64) Arg { return Arg{bits: math.Float64bits(x), size: 8} }

// Pack returns the parameters as a launch takes them, with the addresses that address gives for buffers.
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

// Launch returns the call as the driver takes it.
func (c *Call) Launch(f driver.Function, s driver.Stream, address func(Buffer) driver.Ptr) driver.Launch {
	return driver.Launch{Func: f, Grid: c.Grid, Block: driver.Dim{X: uint32(c.Code.Threads), Y: 1, Z: 1},
		Shared: uint32(c.Code.Dynamic), Stream: s, Params: c.Pack(address)}
}
