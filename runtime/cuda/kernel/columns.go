package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// columnForm determines how threads share the work on columns: the lines along n of a tensor of (outer, n, inner). A
// warp has 32 adjacent columns, and the warps of its block share their numbers. Each pass reads a column once.
type columnForm struct{ warps int }

func columnFormOf(n int) columnForm {
	switch {
	case n <= 16:
		return columnForm{1}
	case n <= 512:
		return columnForm{8}
	}
	return columnForm{32}
}

// columnThread is one of the threads that share a column.
type columnThread struct {
	k *ptx.Kernel
	columnForm
	inner, n ptx.U32
	tiles    ptx.U32
	warp     ptx.U32
	column   ptx.U32 // index along inner, clamped to the last one
	start    ptx.U64 // of the column, in elements
	real     ptx.Pred
}

// columnCall returns the launch of a kernel whose first parameters are those of columnForm.begin.
func columnCall(f columnForm, c *Code, outer, n, inner int, more ...Arg) Call {
	tiles := (inner + 31) / 32
	return NewCall(c, driver.Dim{X: uint32(outer * tiles), Y: 1, Z: 1},
		append([]Arg{U32(n), U32(inner), U32(tiles)}, more...)...)
}

func (f columnForm) begin(k *ptx.Kernel) *columnThread {
	n, inner, tiles := k.U32Param("n"), k.U32Param("inner"), k.U32Param("tiles")
	outer := k.BlockX().Div(tiles)
	col := k.BlockX().Sub(outer.Mul(tiles)).MAD(ptx.U(32), k.Lane())
	t := &columnThread{k: k, columnForm: f, inner: inner, n: n, tiles: tiles, warp: k.ThreadX().Shr(ptx.U(5)), real: col.Lt(inner),
		column: col.Min(inner.Sub(ptx.U(1)))}
	t.start = outer.MulWide(n).MAD(inner.Wide(), t.column.Wide())
	return t
}

// each calls body for the offsets of all the thread's numbers, in tensors of the shape.
func (t *columnThread) each(body func(at ptx.U64)) {
	t.k.For(t.warp, t.n, ptx.U(t.warps), func(i ptx.U32) { body(t.start.Add(i.MulWide(t.inner))) })
}

// sum returns the sum of f over the column, in float64.
func (t *columnThread) sum(f func(at ptx.U64) ptx.F64) ptx.F64 {
	acc := t.k.VarF64(ptx.D(0))
	t.each(func(at ptx.U64) { acc.Set(acc.Add(f(at))) })
	if t.warps == 1 {
		return acc
	}
	part := t.k.SharedArray(8*32*t.warps, 16)
	part.Index(t.k.ThreadX(), 8).StoreF64(0, acc)
	t.k.Barrier()
	list := make([]ptx.F64, t.warps)
	for i := range list {
		list[i] = part.Index(t.k.Lane(), 8).LoadF64(8 * 32 * i)
	}
	return tree(list, ptx.F64.Add)
}

// greatest returns the greatest number of the column of x, or NaN if it contains one.
func (t *columnThread) greatest(x ptx.Addr) ptx.F32 {
	acc := t.k.VarF32(ptx.F(float32(math.Inf(-1))))
	t.each(func(at ptx.U64) { acc.Set(acc.MaxNaN(x.Index64(at, 4).LoadF32(0))) })
	if t.warps == 1 {
		return acc
	}
	part := t.k.SharedArray(4*32*t.warps, 16)
	part.Index(t.k.ThreadX(), 4).StoreF32(0, acc)
	t.k.Barrier()
	list := make([]ptx.F32, t.warps)
	for i := range list {
		list[i] = part.Index(t.k.Lane(), 4).LoadF32(4 * 32 * i)
	}
	return tree(list, ptx.F32.MaxNaN)
}

// columnsFit reports whether kernels on columns support the shape.
func columnsFit(outer, n, inner int) bool {
	return n <= MaxRows && inner <= MaxRows && outer <= MaxRows && outer*((inner+31)/32) <= MaxRows
}

// SoftmaxColumns is SoftmaxRows along the middle axis of a tensor of (outer, n, inner). It returns false for
// unsupported shapes.
func SoftmaxColumns(y, x Buffer, outer, n, inner int, logarithm bool) (Call, bool) {
	if !columnsFit(outer, n, inner) {
		return Call{}, false
	}
	f, name := columnFormOf(n), "softmax_columns"
	if logarithm {
		name = "log" + name
	}
	c := New(fmt.Sprintf("%s_%d", name, f.warps), 32*f.warps, func(k *ptx.Kernel) {
		t := f.begin(k)
		y, x := k.PtrParam("y"), k.PtrParam("x")
		most := t.greatest(x)
		power := func(at ptx.U64) ptx.F32 { return expF32(x.Index64(at, 4).LoadF32(0).Sub(most)) }
		sum := t.sum(func(at ptx.U64) ptx.F64 { return power(at).F64() })
		if logarithm {
			less := wholeLog64(sum).F32()
			k.If(t.real, func() {
				t.each(func(at ptx.U64) {
					y.Index64(at, 4).StoreF32(0, x.Index64(at, 4).LoadF32(0).Sub(most).Sub(less))
				})
			})
			return
		}
		factor := sum.Rcp().F32()
		k.If(t.real, func() {
			t.each(func(at ptx.U64) { y.Index64(at, 4).StoreF32(0, power(at).Mul(factor)) })
		})
	})
	return columnCall(f, c, outer, n, inner, Ptr(y), Ptr(x)), true
}

// NormColumns normalizes the columns of a tensor of (outer, n, inner) to mean 0 and variance 1: (x -
// mean)/√(variance + epsilon). It returns false for unsupported shapes.
func NormColumns(y, x Buffer, outer, n, inner int, epsilon float64) (Call, bool) {
	if !columnsFit(outer, n, inner) {
		return Call{}, false
	}
	f := columnFormOf(n)
	c := New(fmt.Sprintf("norm_columns_%d", f.warps), 32*f.warps, func(k *ptx.Kernel) {
		t := f.begin(k)
		y, x, epsilon := k.PtrParam("y"), k.PtrParam("x"), k.F64Param("epsilon")
		width := t.n.S32().ToF64()
		load := func(at ptx.U64) ptx.F32 { return x.Index64(at, 4).LoadF32(0) }
		mean := t.sum(func(at ptx.U64) ptx.F64 { return load(at).F64() }).Div(width)
		variance := t.sum(func(at ptx.U64) ptx.F64 {
			d := load(at).F64().Sub(mean)
			return d.Mul(d)
		}).Div(width)
		factor := variance.Add(epsilon).Sqrt().Rcp().F32()
		high := mean.F32()
		low := mean.Sub(high.F64()).F32()
		k.If(t.real, func() {
			t.each(func(at ptx.U64) { y.Index64(at, 4).StoreF32(0, load(at).Sub(high).Sub(low).Mul(factor)) })
		})
	})
	return columnCall(f, c, outer, n, inner, Ptr(y), Ptr(x), F64(epsilon)), true
}
