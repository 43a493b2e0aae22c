package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// ReduceTyped combines elements of any type with arithmetic along the axes that reduced marks. One thread computes
// one result, in order. Integers are combined as 64-bit integers if that gives the reduction's result; otherwise in
// float64, and the result is truncated. Bools are 0 and 1. ok is false for unsupported shapes.
func ReduceTyped(r Reduction, y, x Buffer, t tensor.DType, shape []int, reduced []bool) (Call, bool) {
	kind, known := domainOf(t)
	if !known || !fits(shape...) {
		return Call{}, false
	}
	var kept, gone []int // axes
	outputs, count := 1, 1
	for a, n := range shape {
		if reduced[a] {
			gone, count = append(gone, a), count*n
		} else {
			kept, outputs = append(kept, a), outputs*n
		}
	}
	strides := rowMajor(shape)
	whole := kind == integer && r != ReduceMean && r != ReduceL2 && r != ReduceLogSum && r != ReduceLogSumExp
	name := fmt.Sprintf("reduce_%s_%v", reductionNames[r], t)
	return each(name, outputs, func(d *plain, i ptx.U32) {
		out, in, n := d.vector(y, t), d.vector(x, t), d.size(count)
		strided := func(axes []int) (size, stride []ptx.U32) {
			for _, a := range axes {
				size, stride = append(size, d.size(shape[a])), append(stride, d.size(strides[a]))
			}
			return size, stride
		}
		place := func(at, i ptx.U32, size, stride []ptx.U32) ptx.U32 {
			for j, c := range index(i, size) {
				at = c.MAD(stride[j], at)
			}
			return at
		}
		size, stride := strided(kept)
		first := place(ptx.U(0), i, size, stride)
		size, stride = strided(gone)
		inner := func(j ptx.U32) ptx.U64 { return place(d.VarU32(first), j, size, stride).Wide() }
		if whole {
			out.write(i.Wide(), Elem{domain: integer, integer: reduceIntegers(d, r, t, in, n, inner)})
			return
		}
		acc := d.VarF64(ptx.D(r.first()))
		switch r {
		case ReduceLogSumExp:
			acc.Set(ptx.D(math.Inf(-1)))
			d.loop(n, func(j ptx.U32) { acc.Set(wideOperationMax(acc, in.get(inner(j)))) })
			finite := acc.Abs().Lt(ptx.D(math.Inf(1)))
			sum := d.VarF64(ptx.D(0))
			d.If(finite, func() {
				d.loop(n, func(j ptx.U32) { sum.Set(sum.Add(expF64(in.get(inner(j)).Sub(acc)))) })
			})
			acc.Set(finite.SelectF64(acc.Add(logF64(sum)), acc))
		case ReduceMax:
			d.loop(n, func(j ptx.U32) { acc.Set(wideOperationMax(acc, in.get(inner(j)))) })
		case ReduceMin:
			d.loop(n, func(j ptx.U32) { acc.Set(wideOperationMax(acc.Neg(), in.get(inner(j)).Neg()).Neg()) })
		case ReduceProd:
			d.loop(n, func(j ptx.U32) { acc.Set(acc.Mul(in.get(inner(j)))) })
		default:
			d.loop(n, func(j ptx.U32) { acc.Set(acc.Add(r.before(in.get(inner(j))))) })
		}
		sum := ptx.F64(acc)
		switch r {
		case ReduceMean:
			sum = acc.Div(n.Wide().SignedF64())
		case ReduceL2:
			sum = acc.Sqrt()
		case ReduceLogSum:
			sum = logF64(acc)
		}
		if kind == truth { // infinite if there are no elements
			sum = sum.Max(ptx.D(0)).Min(ptx.D(1))
		}
		out.set(i.Wide(), sum)
	})
}

// wideOperationMax returns the greater of two numbers, or NaN.
func wideOperationMax(a, b ptx.F64) ptx.F64 {
	y := a.Max(b)
	y = a.IsNaN().SelectF64(a, y)
	return b.IsNaN().SelectF64(b, y)
}

// reduceIntegers combines n integers.
func reduceIntegers(d *plain, r Reduction, t tensor.DType, in vector, n ptx.U32, place func(i ptx.U32) ptx.U64) ptx.U64 {
	unsigned := t == tensor.Uint64
	var first uint64
	switch r {
	case ReduceProd:
		first = 1
	case ReduceMax:
		if signed(t) {
			first = uint64(int64(-1) << (t.Bits() - 1))
		}
	case ReduceMin:
		first = ^uint64(0)
		if signed(t) {
			first = 1<<(t.Bits()-1) - 1
		} else if t.Bits() < 64 {
			first = 1<<t.Bits() - 1
		}
	}
	acc := d.VarU64(ptx.L(first))
	d.loop(n, func(j ptx.U32) {
		v := in.read(place(j)).integer
		switch r {
		case ReduceProd:
			v = acc.Mul(v)
		case ReduceSumSquare:
			v = v.MAD(v, acc)
		case ReduceL1:
			if !unsigned {
				v = v.SignedMax(ptx.L(0).Sub(v))
			}
			v = acc.Add(v)
		case ReduceMax:
			if unsigned {
				v = acc.Max(v)
			} else {
				v = acc.SignedMax(v)
			}
		case ReduceMin:
			if unsigned {
				v = acc.Min(v)
			} else {
				v = acc.SignedMin(v)
			}
		default:
			v = acc.Add(v)
		}
		acc.Set(v)
	})
	return acc
}
