package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Reduction combines all numbers along some axes of a tensor. It computes in float64, except for the exponentials of
// LogSumExp, which are in float32.
type Reduction int8

// The reductions.
const (
	ReduceSum Reduction = iota
	ReduceMean
	ReduceSumSquare
	ReduceL1
	ReduceL2
	ReduceLogSum
	ReduceLogSumExp
	ReduceMax
	ReduceMin
	ReduceProd
)

var reductionNames = [...]string{"sum", "mean", "sumsquare", "l1", "l2", "logsum", "logsumexp", "max", "min", "prod"}

// first returns the result for an empty list.
func (r Reduction) first() float64 {
	switch r {
	case ReduceMax:
		return math.Inf(-1)
	case ReduceMin:
		return math.Inf(1)
	case ReduceProd:
		return 1
	}
	return 0
}

func (r Reduction) join(a, b ptx.F64) ptx.F64 {
	switch r {
	case ReduceMax:
		return a.F32().MaxNaN(b.F32()).F64()
	case ReduceMin:
		return a.F32().MinNaN(b.F32()).F64()
	case ReduceProd:
		return a.Mul(b)
	}
	return a.Add(b)
}

// before is applied to each number.
func (r Reduction) before(x ptx.F64) ptx.F64 {
	switch r {
	case ReduceSumSquare, ReduceL2:
		return x.Mul(x)
	case ReduceL1:
		return x.Abs()
	}
	return x
}

// after is applied to the results of count numbers.
func (r Reduction) after(x, count ptx.F64) ptx.F64 {
	switch r {
	case ReduceMean:
		return x.Div(count)
	case ReduceL2:
		return x.Sqrt()
	case ReduceLogSum, ReduceLogSumExp:
		return wholeLog64(x)
	}
	return x
}

// wholeLog64 returns the natural logarithm of any number that is not subnormal.
func wholeLog64(x ptx.F64) ptx.F64 {
	inf := ptx.D(math.Inf(1))
	y := x.Lt(inf).SelectF64(log64(x), x)
	y = x.Lt(ptx.D(0)).SelectF64(ptx.D(math.NaN()), y)
	return x.Eq(ptx.D(0)).SelectF64(ptx.D(math.Inf(-1)), y)
}

// axes is a group of axes that can be iterated as one.
type axes struct{ size, stride int }

// groups returns the kept and the reduced axes of shape as few nested groups, and the number of elements of each
// kind.
func groups(shape []int, reduced []bool) (kept, gone []axes, outputs, count int) {
	outputs, count = 1, 1
	stride, last := 1, -1 // last: the kind of the previous group
	for i := len(shape) - 1; i >= 0; i-- {
		n := shape[i]
		list, kind := &kept, 0
		if reduced[i] {
			list, kind = &gone, 1
			count *= n
		} else {
			outputs *= n
		}
		switch {
		case n == 1:
			continue
		case kind == last:
			(*list)[len(*list)-1].size *= n
		default:
			*list = append(*list, axes{n, stride})
		}
		last = kind
		stride *= n
	}
	if kept == nil {
		kept = []axes{{1, 0}}
	}
	if gone == nil {
		gone = []axes{{1, 0}}
	}
	return kept, gone, outputs, count
}

// maxGroups is the maximum number of groups of one kind in kernels.
const maxGroups = 4

// Reduce combines the numbers along the axes of x that reduced marks. y has the others. It returns false for more
// than four alternating groups of axes, and for more than 2^31 results or numbers per result.
func Reduce(r Reduction, y, x Buffer, shape []int, reduced []bool, scratch func(bytes int) Buffer) ([]Call, bool) {
	kept, gone, outputs, count := groups(shape, reduced)
	if len(kept) > maxGroups || len(gone) > maxGroups || outputs > MaxRows || count > MaxRows {
		return nil, false
	}
	if outputs == 0 {
		return nil, true
	}
	if r == ReduceLogSumExp { // after subtracting the greatest number
		most := scratch(4 * outputs)
		calls, _ := Reduce(ReduceMax, most, x, shape, reduced, scratch)
		return append(calls, reduceBy(r, y, x, most, kept, gone, outputs, count, scratch)...), true
	}
	return reduceBy(r, y, x, 0, kept, gone, outputs, count, scratch), true
}

func reduceBy(r Reduction, y, x, most Buffer, kept, gone []axes, outputs, count int, scratch func(int) Buffer) []Call {
	lines := gone[0].stride == 1 && count > 1 // of the combined numbers
	if lines && len(gone) == 1 && len(kept) == 1 && r != ReduceLogSumExp && (outputs >= 128 || count <= blockRow) {
		f := rowFormOf(count)
		return []Call{NewCall(reduceRowsCode(r, f), f.grid(outputs), Ptr(y), Ptr(x), U32(outputs), F64(float64(count)))}
	}
	f := reduceForm{op: r, lines: lines, kept: len(kept), gone: len(gone), whole: true}
	f.blocks(outputs, count)
	o := reduceOperands{y: y, x: x, most: most, kept: kept, gone: gone, outputs: outputs, count: count}
	if f.parts == 1 {
		return []Call{f.call(o)}
	}
	part := scratch(8 * f.parts * outputs)
	o.y, f.whole = part, false
	first := f.call(o)
	last := reduceForm{op: r, kept: 1, gone: 1, from64: true, whole: true}
	last.blocks(outputs, f.parts)
	last.parts, last.chunk = 1, f.parts
	return []Call{first, last.call(reduceOperands{y: y, x: part, most: most, kept: []axes{{outputs, 1}},
		gone: []axes{{f.parts, outputs}}, outputs: outputs, count: f.parts, mean: count})}
}

// reduceForm is how a reduction is computed. Either a block combines the numbers of one result (lines), or a warp
// has 32 adjacent results, and the warps of its block share their numbers. If there are few results, the numbers are
// divided into parts.
type reduceForm struct {
	op         Reduction
	lines      bool
	kept, gone int  // number of groups of axes
	from64     bool // the inputs are results of parts
	whole      bool // the results are final
	warps      int

	parts, chunk int
	grid         int // blocks per part
}

func (f *reduceForm) blocks(outputs, count int) {
	least := 2048
	switch {
	case f.lines:
		f.warps, f.grid = 8, outputs
	case count <= 8:
		f.warps, f.grid = 1, (outputs+31)/32
	default:
		f.warps, f.grid, least = 8, (outputs+31)/32, 128
	}
	f.parts = max(1, min((255+f.grid)/f.grid, count/least))
	f.chunk = (count + f.parts - 1) / f.parts
	if f.chunk > 0 {
		f.parts = max(1, (count+f.chunk-1)/f.chunk)
	}
}

type reduceOperands struct {
	y, x, most     Buffer
	kept, gone     []axes
	outputs, count int
	mean           int // the divisor of a mean, if it is not count
}

func (f reduceForm) call(o reduceOperands) Call {
	if o.mean == 0 {
		o.mean = o.count
	}
	args := []Arg{Ptr(o.y), Ptr(o.x), U32(o.outputs), U32(o.count), U32(f.chunk), F64(float64(o.mean))}
	if f.op == ReduceLogSumExp {
		args = append(args, Ptr(o.most))
	}
	for _, list := range [][]axes{o.kept, o.gone} {
		for _, a := range list {
			args = append(args, U32(a.size), U64(a.stride))
		}
	}
	return NewCall(f.code(), driver.Dim{X: uint32(f.grid), Y: uint32(f.parts), Z: 1}, args...)
}

func (f reduceForm) code() *Code {
	name := fmt.Sprintf("reduce_%s_%d_%d", reductionNames[f.op], f.kept, f.gone)
	if f.lines {
		name += "_lines"
	}
	r := f.op
	return New(name, 32*f.warps, func(k *ptx.Kernel) {
		y, x := k.PtrParam("y"), k.PtrParam("x")
		outputs, count, chunk, mean := k.U32Param("outputs"), k.U32Param("count"), k.U32Param("chunk"), k.F64Param("mean")
		var most ptx.Addr
		if r == ReduceLogSumExp {
			most = k.PtrParam("most")
		}
		kept, gone := axesParams(k, "kept", f.kept), axesParams(k, "gone", f.gone)

		warp := k.ThreadX().Shr(ptx.U(5))
		result := k.BlockX()
		inside := result.Lt(outputs)
		first, step := k.ThreadX(), 32*f.warps
		if !f.lines {
			result = k.BlockX().MAD(ptx.U(32), k.Lane())
			inside = result.Lt(outputs)
			result = result.Min(outputs.Sub(ptx.U(1)))
			first, step = warp, f.warps
		}
		size := 4
		if f.from64 {
			size = 8
		}
		base := x.Index64(kept.offset(result), size)
		less := ptx.F(0)
		if r == ReduceLogSumExp {
			m := most.Index(result, 4).LoadF32(0)
			less = m.Abs().Lt(ptx.F(float32(math.Inf(1)))).SelectF32(m, ptx.F(0))
		}
		begin := k.BlockY().Mul(chunk)
		end := begin.Add(chunk).Min(count)
		acc := k.VarF64(ptx.D(r.first()))
		k.For(begin.Add(first), end, ptx.U(step), func(i ptx.U32) {
			at := base.Index64(gone.offset(i), size)
			switch {
			case f.from64:
				acc.Set(r.join(acc, at.LoadF64(0)))
			case r == ReduceLogSumExp:
				acc.Set(r.join(acc, expF32(at.LoadF32(0).Sub(less)).F64()))
			default:
				acc.Set(r.join(acc, r.before(at.LoadF32(0).F64())))
			}
		})
		all := ptx.F64(acc)
		if f.lines {
			for by := 16; by > 0; by /= 2 {
				all = r.join(all, all.ShuffleXor(ptx.U(by)))
			}
		}
		write := func(all ptx.F64) {
			if !f.whole {
				y.Index64(k.BlockY().MulWide(outputs).Add(result.Wide()), 8).StoreF64(0, all)
				return
			}
			all = r.after(all, mean)
			if r == ReduceLogSumExp {
				all = all.Add(less.F64())
			}
			y.Index(result, 4).StoreF32(0, all.F32())
		}
		switch {
		case f.warps == 1:
			k.If(inside, func() { write(all) })
			return
		case f.lines:
			part := k.SharedArray(8*f.warps, 16)
			k.Guard(k.Lane().Eq(ptx.U(0)), func() { part.Index(warp, 8).StoreF64(0, all) })
			k.Barrier()
			k.If(k.ThreadX().Eq(ptx.U(0)), func() {
				var list []ptx.F64
				for i := 0; i < f.warps; i += 2 {
					list = append(list, part.LoadF64s(8*i, 2)...)
				}
				write(tree(list, r.join))
			})
		default:
			part := k.SharedArray(8*32*f.warps, 16)
			part.Index(k.ThreadX(), 8).StoreF64(0, all)
			k.Barrier()
			k.If(warp.Eq(ptx.U(0)).And(inside), func() {
				at := part.Index(k.Lane(), 8)
				var list []ptx.F64
				for i := range f.warps {
					list = append(list, at.LoadF64(8*32*i))
				}
				write(tree(list, r.join))
			})
		}
	})
}

// reduceRowsCode returns the kernel that combines contiguous rows.
func reduceRowsCode(r Reduction, f rowForm) *Code {
	return New(fmt.Sprintf("reduce_%s_rows_%d", reductionNames[r], f.width), f.threads, func(k *ptx.Kernel) {
		y, x, rows, mean := k.PtrParam("y"), k.PtrParam("x"), k.U32Param("rows"), k.F64Param("mean")
		t := f.begin(k, rows)
		in := t.input(t.at(x, 4), 0)
		all := t.fold64(r.first(), func(_ ptx.F64, p rowPart) []ptx.F64 { return wide64(in.get(p), r.before) }, r.join)
		t.first(func() { y.Index(t.row, 4).StoreF32(0, r.after(all, mean).F32()) })
	})
}

// axesOperands are the sizes and strides of groups of axes, innermost first.
type axesOperands struct {
	size   []ptx.U32
	stride []ptx.U64
}

func axesParams(k *ptx.Kernel, name string, n int) (a axesOperands) {
	for i := range n {
		a.size = append(a.size, k.U32Param(fmt.Sprintf("%s_size%d", name, i)))
		a.stride = append(a.stride, k.U64Param(fmt.Sprintf("%s_stride%d", name, i)))
	}
	return a
}

// offset returns the offset of element i.
func (a axesOperands) offset(i ptx.U32) ptx.U64 {
	last := len(a.size) - 1
	var at ptx.U64
	for j := range last {
		q := i.Div(a.size[j])
		o := i.Sub(q.Mul(a.size[j])).Wide().Mul(a.stride[j])
		if j == 0 {
			at = o
		} else {
			at = at.Add(o)
		}
		i = q
	}
	o := i.Wide().Mul(a.stride[last])
	if last == 0 {
		return o
	}
	return at.Add(o)
}
