package kernel

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// CumSum returns launches that compute running sums of a tensor of outer × n × inner elements along the middle
// axis, in float64 for floats of up to 32 bits. Exclusive sums omit the element itself; reverse sums start at the
// end. ok is false for other types and sizes.
func CumSum(outer, n, inner int, exclusive, reverse bool, out, in Buffer, t tensor.DType) (calls []Call, ok bool) {
	d, known := domainOf(t)
	if !known || d == truth || d == wide && t != tensor.Float64 || outer*inner > maxItems || n > maxItems {
		return nil, false
	}
	if outer*n*inner == 0 {
		return nil, true
	}
	lines := outer * inner
	scan := d == number && inner < 32
	args := []Arg{Ptr(out), Ptr(in), U32(n), U32(inner), U32(lines)}
	code := cachedCode(fmt.Sprint("cumsum ", t, exclusive, reverse, scan), func() *Code {
		return New("cumsum", mapThreads, func(k *ptx.Kernel) { cumSumCode(k, t, exclusive, reverse, scan) })
	})
	grid := (lines + mapThreads - 1) / mapThreads
	if scan {
		grid = lines
	}
	return []Call{NewCall(code, driver.Dim{X: uint32(grid), Y: 1, Z: 1}, args...)}, true
}

// cumSumCode computes a line by one thread, element by element, or by a block, 256 elements at a time in a tree.
func cumSumCode(k *ptx.Kernel, t tensor.DType, exclusive, reverse, scan bool) {
	out, in := k.PtrParam("out"), k.PtrParam("in")
	n, inner, lines := k.U32Param("n"), k.U32Param("inner"), k.U32Param("lines")
	size := t.Bits() / 8
	d, _ := domainOf(t)
	line := k.BlockX()
	if !scan {
		line = line.MAD(ptx.U(mapThreads), k.ThreadX())
	}
	row := line.Div(inner)
	first := row.MulWide(n).Mul(inner.Wide()).Add(line.Sub(row.Mul(inner)).Wide())
	place := func(i ptx.U32) ptx.U64 {
		if reverse {
			i = n.Sub(ptx.U(1)).Sub(i)
		}
		return i.MulWide(inner).Add(first)
	}
	toWide := func(x raw) ptx.F64 { return x.elem(t).to(t, tensor.Float64).wide }
	write := func(i ptx.U32, sum ptx.F64) {
		e := Elem{domain: wide, wide: sum}
		store(out.Index64(place(i), size), size, []raw{e.to(tensor.Float64, t).raw(t)})
	}
	if scan {
		scanLine(k, n, func(i ptx.U32) ptx.F64 { return toWide(load(in.Index64(place(i), size), size, 1)[0]) }, write, exclusive)
		return
	}
	k.If(line.Lt(lines), func() {
		if d == integer {
			sum := k.VarU64(ptx.L(0))
			k.For(ptx.U(0), n, ptx.U(1), func(i ptx.U32) {
				at := place(i)
				after := sum.Add(load(in.Index64(at, size), size, 1)[0].elem(t).integer)
				y := after
				if exclusive {
					y = sum
				}
				store(out.Index64(at, size), size, []raw{Elem{domain: integer, integer: y}.raw(t)})
				sum.Set(after)
			})
			return
		}
		sum := k.VarF64(ptx.D(0))
		k.For(ptx.U(0), n, ptx.U(1), func(i ptx.U32) {
			after := sum.Add(toWide(load(in.Index64(place(i), size), size, 1)[0]))
			if exclusive {
				write(i, sum)
			} else {
				write(i, after)
			}
			sum.Set(after)
		})
	})
}

// scanLine appends running sums of n numbers, computed by all threads of a block.
func scanLine(k *ptx.Kernel, n ptx.U32, read func(i ptx.U32) ptx.F64, write func(i ptx.U32, sum ptx.F64), exclusive bool) {
	const warps = mapThreads / 32
	sums := k.SharedArray(8*(warps+1), 8)
	carry := k.VarF64(ptx.D(0))
	lane, warp := k.ThreadX().And(ptx.U(31)), k.ThreadX().Shr(ptx.U(5))
	k.For(ptx.U(0), n, ptx.U(mapThreads), func(from ptx.U32) {
		i := from.Add(k.ThreadX())
		x := k.VarF64(ptx.D(0))
		k.If(i.Lt(n), func() { x.Set(read(i)) })
		sum := k.VarF64(x)
		for by := 1; by < 32; by *= 2 {
			before := sum.ShuffleUp(ptx.U(by))
			sum.Set(lane.Ge(ptx.U(by)).SelectF64(sum.Add(before), sum))
		}
		k.If(lane.Eq(ptx.U(31)), func() { sums.Index(warp, 8).StoreF64(0, sum) })
		k.Barrier()
		all, mine := k.VarF64(carry), k.VarF64(carry)
		for w := range warps {
			mine.Set(warp.Eq(ptx.U(w)).SelectF64(all, mine))
			all.Set(all.Add(sums.LoadF64(8 * w)))
		}
		if exclusive {
			before := sum.ShuffleUp(ptx.U(1))
			sum.Set(lane.Ge(ptx.U(1)).SelectF64(before, ptx.D(0)))
		}
		k.If(i.Lt(n), func() { write(i, mine.Add(sum)) })
		carry.Set(all)
		k.Barrier()
	})
}
