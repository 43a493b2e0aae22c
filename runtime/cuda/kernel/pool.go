package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// PoolKind is a function of the numbers of a window.
type PoolKind int8

// The kinds of pooling. Sums are in float64.
const (
	PoolMax PoolKind = iota
	PoolAverage
	PoolAverageAll // pads count as zeros
	PoolL1
	PoolL2
)

// PoolAxis is the layout of windows along an axis. They start Begin before the first element, and end up to End
// after the last.
type PoolAxis struct {
	In, Out                int
	Taps, Stride, Dilation int
	Begin, End             int
}

const poolThreads = 256

// Pool reduces windows over up to three axes of planes planes. at, if it is not 0, receives the index of each
// greatest number in x; only PoolMax supports it. Pool returns false for unsupported shapes.
func Pool(kind PoolKind, y, at, x Buffer, planes int, over []PoolAxis) (Call, bool) {
	outputs, size := planes, 1
	args := []Arg{Ptr(y), Ptr(x)}
	if at != 0 {
		args = append(args, Ptr(at))
	}
	args = append(args, U32(0))
	n := len(args) - 1
	for i := len(over) - 1; i >= 0; i-- {
		a := over[i]
		if last := (a.Out-1)*a.Stride + (a.Taps-1)*a.Dilation; a.In > MaxRows || a.Out > MaxRows || last > MaxRows ||
			a.Taps > MaxRows ||
			a.Begin > MaxRows || a.In+a.End > MaxRows {
			return Call{}, false
		}
		outputs *= a.Out
		size *= a.In
		if outputs > MaxRows || size > MaxRows {
			return Call{}, false
		}
		args = append(args, U32(a.In), U32(a.Out), U32(a.Taps), U32(a.Stride), U32(a.Dilation), U32(a.Begin), U32(a.In+a.End))
	}
	if len(over) == 0 || len(over) > 3 || outputs > MaxRows {
		return Call{}, false
	}
	args[n] = U32(outputs)
	return NewCall(poolCode(kind, len(over), at != 0), driver.Dim{X: uint32((outputs + poolThreads - 1) / poolThreads), Y: 1, Z: 1},
		args...), true
}

func poolCode(kind PoolKind, rank int, places bool) *Code {
	name := [...]string{"max", "average", "average_all", "l1", "l2"}[kind]
	if places {
		name += "_places"
	}
	return New(fmt.Sprintf("pool_%s_%d", name, rank), poolThreads, func(k *ptx.Kernel) {
		y, x := k.PtrParam("y"), k.PtrParam("x")
		var places64 ptx.Addr
		if places {
			places64 = k.PtrParam("at")
		}
		outputs := k.U32Param("outputs")
		type axis struct{ in, out, taps, stride, dilation, begin, end ptx.U32 }
		list := make([]axis, rank) // innermost first
		for i := range list {
			p := func(name string) ptx.U32 { return k.U32Param(fmt.Sprintf("%s%d", name, i)) }
			list[i] = axis{p("in"), p("out"), p("taps"), p("stride"), p("dilation"), p("begin"), p("end")}
		}
		output := k.BlockX().MAD(ptx.U(poolThreads), k.ThreadX())
		k.If(output.Lt(outputs), func() {
			rest := output
			first := make([]ptx.U32, rank) // starts of windows; negative ones are great numbers
			for i, a := range list {
				q := rest.Div(a.out)
				first[i] = rest.Sub(q.Mul(a.out)).Mul(a.stride).Sub(a.begin)
				rest = q
			}
			size := list[0].in
			for _, a := range list[1:] {
				size = size.Mul(a.in)
			}
			plane := rest.MulWide(size)
			base := x.Index64(plane, 4)

			sum := k.VarF64(ptx.D(0))
			count, padded := k.VarU32(ptx.U(0)), k.VarU32(ptx.U(0))
			best, from := k.VarF32(ptx.F(float32(math.Inf(-1)))), k.VarU32(ptx.U(uint32(math.MaxUint32)))
			visit := func(at ptx.U32) {
				v := base.Index(at, 4).LoadF32(0)
				switch {
				case kind == PoolMax && places:
					better := v.Gt(best).Or(v.IsNaN().And(best.IsNaN().Not())).Or(from.Eq(ptx.U(uint32(math.MaxUint32))))
					best.Set(better.SelectF32(v, best))
					from.Set(better.SelectU32(at, from))
				case kind == PoolMax:
					best.Set(best.MaxNaN(v))
				case kind == PoolL1:
					sum.Set(sum.Add(v.Abs().F64()))
				case kind == PoolL2:
					w := v.F64()
					sum.Set(w.FMA(w, sum))
				default:
					sum.Set(sum.Add(v.F64()))
					count.Set(count.Add(ptx.U(1)))
				}
			}
			var walk func(i int, at ptx.U32, inside ptx.Pred, outside bool)
			walk = func(i int, at ptx.U32, inside ptx.Pred, outside bool) {
				a := list[i]
				k.For(ptx.U(0), a.taps, ptx.U(1), func(tap ptx.U32) {
					place := tap.MAD(a.dilation, first[i])
					ok := place.Lt(a.in)
					next := place
					if i < rank-1 {
						next = at.MAD(a.in, place)
						ok = ok.And(inside)
					}
					// The pads after the last element that count end at end.
					counts := place.S32().Lt(a.end.S32())
					body := func() {
						if i > 0 {
							walk(i-1, next, ok, outside)
							return
						}
						if outside {
							padded.Set(padded.Add(ptx.U(1)))
						}
						k.If(ok, func() { visit(next) })
					}
					if outside {
						k.If(counts, body)
					} else {
						k.If(ok, body)
					}
				})
			}
			walk(rank-1, ptx.U(0), ptx.Pred{}, kind == PoolAverageAll)

			result := best
			switch kind {
			case PoolAverage, PoolAverageAll:
				if kind == PoolAverage {
					padded = count
				}
				result = padded.Eq(ptx.U(0)).SelectF32(ptx.F(0), sum.Div(padded.S32().ToF64()).F32())
			case PoolL1:
				result = sum.F32()
			case PoolL2:
				result = sum.Sqrt().F32()
			}
			y.Index(output, 4).StoreF32(0, result)
			if places { // no number: one before the plane
				places64.Index(output, 8).StoreU64(0, plane.Add(from.S32().Wide()))
			}
		})
	})
}
