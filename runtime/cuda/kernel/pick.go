package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// PickMode is a way to turn a sequence into one row.
type PickMode int8

// The modes.
const (
	PickPool PickMode = iota // the mean
	PickSum
	PickLast
	PickFirst
)

var pickNames = [...]string{"pool", "sum", "last", "first"}

// Pick writes one row of features for each of batch sequences of length rows. lengths has, as int64, the number of
// valid rows; if it is 0, all are valid. Sums are in float64. If a length is not between 1 and length, the row is
// NaN, and the number in fault is set. Pick returns false for unsupported shapes.
func Pick(mode PickMode, y, x, lengths, fault Buffer, batch, length, features int) (Call, bool) {
	if !columnsFit(batch, length, features) {
		return Call{}, false
	}
	f := columnForm{1}
	if mode <= PickSum {
		f = columnFormOf(length)
	}
	args := []Arg{Ptr(y), Ptr(x)}
	if lengths != 0 {
		args = append(args, Ptr(lengths), Ptr(fault))
	}
	c := New(fmt.Sprintf("pick_%s_%d", pickNames[mode], f.warps), 32*f.warps, func(k *ptx.Kernel) {
		t := f.begin(k)
		y, x := k.PtrParam("y"), k.PtrParam("x")
		sample := k.BlockX().Div(t.tiles)
		all := t.n
		good := t.n.Eq(t.n)
		if lengths != 0 {
			n := k.PtrParam("lengths").Index(sample, 8).LoadU64(0)
			good = n.Sub(ptx.L(1)).Lt(all.Wide())
			t.n = good.SelectU32(n.Low(), ptx.U(0))
			fault := k.PtrParam("fault")
			k.If(good.Not(), func() { fault.SetBits(0, ptx.U(1)) })
		}
		out := y.Index64(sample.MulWide(t.inner).Add(t.column.Wide()), 4)
		// Rows of different samples are all rows apart, whatever the lengths.
		t.start = sample.MulWide(all).MAD(t.inner.Wide(), t.column.Wide())
		result := k.VarF32(ptx.F(float32(math.NaN())))
		switch mode {
		case PickPool, PickSum:
			sum := t.sum(func(at ptx.U64) ptx.F64 { return x.Index64(at, 4).LoadF32(0).F64() })
			if mode == PickPool {
				sum = sum.Div(t.n.S32().ToF64())
			}
			result.Set(good.SelectF32(sum.F32(), result))
		default:
			row := ptx.U64(t.start)
			if mode == PickLast {
				row = row.Add(t.n.Sub(ptx.U(1)).MulWide(t.inner))
			}
			k.Guard(good, func() { result.Set(x.Index64(row, 4).LoadF32(0)) })
		}
		k.If(t.real.And(t.warp.Eq(ptx.U(0))), func() { out.StoreF32(0, result) })
	})
	return columnCall(f, c, batch, length, features, args...), true
}

// Pair joins the rows a and b of pairs of samples, where a is in the first half: [a, b], and with nli [a, b, a-b,
// a·b].
func Pair(y, x Buffer, pairs, features int, nli bool) (Call, bool) {
	width := 2 * features
	if nli {
		width = 4 * features
	}
	if pairs > MaxRows/max(1, width) {
		return Call{}, false
	}
	name := "pair"
	if nli {
		name = "pair_nli"
	}
	c := New(name, 256, func(k *ptx.Kernel) {
		// n is half the size of x
		y, x, n, features := k.PtrParam("y"), k.PtrParam("x"), k.U32Param("n"), k.U32Param("features")
		i := k.BlockX().MAD(ptx.U(256), k.ThreadX())
		k.If(i.Lt(n), func() {
			pair := i.Div(features)
			feature := i.Sub(pair.Mul(features))
			a, b := x.Index(i, 4).LoadF32(0), x.Index64(n.Wide().Add(i.Wide()), 4).LoadF32(0)
			list := []ptx.F32{a, b}
			if nli {
				list = append(list, a.Sub(b), a.Mul(b))
			}
			row := pair.MulWide(features.Mul(ptx.U(len(list)))).Add(feature.Wide())
			for _, v := range list {
				y.Index64(row, 4).StoreF32(0, v)
				row = row.Add(features.Wide())
			}
		})
	})
	return NewCall(c, driver.Dim{X: uint32((pairs*features + 255) / 256), Y: 1, Z: 1}, Ptr(y), Ptr(x), U32(pairs*features),
		U32(features)), true
}
