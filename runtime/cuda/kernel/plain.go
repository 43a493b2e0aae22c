package kernel

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// plain is a kernel under construction for a rare operator. Each thread computes one element or one line, in
// float64. Parameters are added together with their arguments, so sizes are not part of the kernel's text.
type plain struct {
	*ptx.Kernel
	args []Arg
}

// each returns a launch of count threads; build writes the work of thread i. ok is false if there are too many for a
// launch.
func each(name string, count int, build func(d *plain, i ptx.U32)) (call Call, ok bool) {
	if count > MaxRows {
		return Call{}, false
	}
	d := &plain{}
	code := New(name, mapThreads, func(k *ptx.Kernel) {
		d.Kernel = k
		n := d.size(count)
		i := k.BlockX().MAD(ptx.U(mapThreads), k.ThreadX())
		k.If(i.Lt(n), func() { build(d, i) })
	})
	return NewCall(code, driver.Dim{X: uint32((count + mapThreads - 1) / mapThreads), Y: 1, Z: 1}, d.args...), true
}

func (d *plain) name() string { return fmt.Sprintf("p%d", len(d.args)) }

// size adds a parameter. It panics if n does not fit in 32 bits; callers must check sizes.
func (d *plain) size(n int) ptx.U32 {
	x := d.U32Param(d.name())
	d.args = append(d.args, U32(n))
	return x
}

// signed adds a parameter that may be negative.
func (d *plain) signed(n int) ptx.S32 {
	x := d.S32Param(d.name())
	d.args = append(d.args, S32(n))
	return x
}

// float adds a parameter.
func (d *plain) float(v float64) ptx.F64 {
	x := d.F64Param(d.name())
	d.args = append(d.args, F64(v))
	return x
}

// address adds the address of a buffer as a parameter.
func (d *plain) address(b Buffer) ptx.Addr {
	x := d.PtrParam(d.name())
	d.args = append(d.args, Ptr(b))
	return x
}

// vector is a tensor whose elements are numbered.
type vector struct {
	at ptx.Addr
	t  tensor.DType
}

func (d *plain) vector(b Buffer, t tensor.DType) vector { return vector{d.address(b), t} }

// read returns element i.
func (v vector) read(i ptx.U64) Elem {
	size := v.t.Bits() / 8
	return load(v.at.Index64(i, size), size, 1)[0].elem(v.t)
}

// write sets element i to a number in the domain of its type.
func (v vector) write(i ptx.U64, x Elem) {
	size := v.t.Bits() / 8
	store(v.at.Index64(i, size), size, []raw{x.raw(v.t)})
}

// get returns element i as a number.
func (v vector) get(i ptx.U64) ptx.F64 { return v.read(i).to(v.t, tensor.Float64).wide }

// set rounds x to element i.
func (v vector) set(i ptx.U64, x ptx.F64) {
	v.write(i, Elem{domain: wide, wide: x}.to(tensor.Float64, v.t))
}

// copyTo sets element i to element from of another tensor of the same width.
func (v vector) copyTo(i ptx.U64, of vector, from ptx.U64) {
	size := v.t.Bits() / 8
	store(v.at.Index64(i, size), size, load(of.at.Index64(from, size), size, 1))
}

// index splits a number into an index of a shape given by parameters.
func index(i ptx.U32, shape []ptx.U32) []ptx.U32 {
	at := make([]ptx.U32, len(shape))
	for a := len(shape) - 1; a > 0; a-- {
		q := i.Div(shape[a])
		at[a] = i.Sub(q.Mul(shape[a]))
		i = q
	}
	if len(at) > 0 {
		at[0] = i
	}
	return at
}

// sizes adds parameters.
func (d *plain) sizes(shape ...int) []ptx.U32 {
	list := make([]ptx.U32, len(shape))
	for i, n := range shape {
		list[i] = d.size(n)
	}
	return list
}

// loop calls body for the numbers below n. Unlike For, it does not unroll.
func (d *plain) loop(n ptx.U32, body func(i ptx.U32)) { d.For(ptx.U(0), n, ptx.U(1), body) }

// fits reports whether all products of sizes that kernels compute in 32 bits are below 2^31.
func fits(sizes ...int) bool {
	n := 1
	for _, s := range sizes {
		if s < 0 || s > MaxRows {
			return false
		}
		if n *= max(s, 1); n > MaxRows {
			return false
		}
	}
	return true
}

// Tensor is a tensor in row-major order for kernels of this kind. It may have any type that they compute with.
type Tensor struct {
	Buffer Buffer // 0 if absent
	Type   tensor.DType
}

func (d *plain) tensor(t Tensor) vector { return d.vector(t.Buffer, t.Type) }
