package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Search finds the index of the greatest or the smallest number along the middle axis of a tensor of (outer, n,
// inner). NaN counts as both. Of equal numbers it takes the first or the last one; of NaNs always the first.
type Search struct {
	Least, Last bool
	// Hard writes 1 at the index, instead of the index as int64. All other numbers must be 0 already.
	Hard bool
}

// searchForm is how threads share the work: a warp has one line of contiguous numbers, a block has one, or the warps
// of a block share 32 adjacent columns.
type searchForm struct {
	columns bool
	warps   int // per line
}

// Call returns the launch. n must not be 0. It returns false for unsupported shapes.
func (s Search) Call(y, x Buffer, outer, n, inner int) (Call, bool) {
	if !columnsFit(outer, n, inner) || outer*inner > MaxRows {
		return Call{}, false
	}
	f := searchForm{inner > 1, columnFormOf(n).warps}
	blocks := outer * ((inner + 31) / 32)
	if !f.columns {
		if f.warps = 8; n <= 1024 {
			f.warps = 1
		}
		blocks = outer
	}
	return NewCall(s.code(f), driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, Ptr(y), Ptr(x), U32(n), U32(inner),
		U32((inner+31)/32)), true
}

// found is the best number so far, and its index.
type found struct {
	x  ptx.F32
	at ptx.U32
}

// better reports whether b is a better result than a.
func (s Search) better(b, a found) ptx.Pred {
	more := b.x.Gt(a.x)
	if s.Least {
		more = b.x.Lt(a.x)
	}
	first, none, same := b.at.Lt(a.at), a.x.IsNaN(), a.x.Eq(b.x)
	nan := b.x.IsNaN()
	if s.Last {
		same = same.And(first.Not())
	} else {
		same = same.And(first)
	}
	return more.Or(same).Or(nan.And(none.Not().Or(first)))
}

func (s Search) code(f searchForm) *Code {
	name := "search"
	for _, x := range []struct {
		is   bool
		text string
	}{{s.Least, "least"}, {!s.Least, "greatest"}, {s.Last, "last"}, {s.Hard, "hard"}, {f.columns, "columns"}} {
		if x.is {
			name += "_" + x.text
		}
	}
	return New(fmt.Sprintf("%s_%d", name, f.warps), 32*f.warps, func(k *ptx.Kernel) {
		y, x, n, inner, tiles := k.PtrParam("y"), k.PtrParam("x"), k.U32Param("n"), k.U32Param("inner"), k.U32Param("tiles")
		warp := k.ThreadX().Shr(ptx.U(5))
		outer, column, first, step := k.BlockX(), k.VarU32(ptx.U(0)), k.ThreadX(), 32*f.warps
		real := first.Eq(ptx.U(0))
		if f.columns {
			outer = k.BlockX().Div(tiles)
			c := k.BlockX().Sub(outer.Mul(tiles)).MAD(ptx.U(32), k.Lane())
			real = c.Lt(inner).And(warp.Eq(ptx.U(0)))
			column.Set(c.Min(inner.Sub(ptx.U(1))))
			first, step = warp, f.warps
		}
		line := outer.MulWide(n).MAD(inner.Wide(), column.Wide())
		number := func(i ptx.U32) ptx.F32 { return x.Index64(line.Add(i.MulWide(inner)), 4).LoadF32(0) }
		// A thread without a number of its own takes another thread's, which changes nothing.
		at := k.VarU32(first.Min(n.Sub(ptx.U(1))))
		best := found{k.VarF32(number(at)), at}
		take := func(b found) {
			p := s.better(b, best)
			value, place := p.SelectF32(b.x, best.x), p.SelectU32(b.at, best.at)
			best.x.Set(value)
			best.at.Set(place)
		}
		k.For(first.Add(ptx.U(step)), n, ptx.U(step), func(i ptx.U32) { take(found{number(i), i}) })
		if !f.columns {
			for by := 16; by > 0; by /= 2 {
				take(found{best.x.ShuffleXor(ptx.U(by)), best.at.ShuffleXor(ptx.U(by))})
			}
		}
		if f.warps > 1 {
			// With columns, each lane has its own results.
			places := f.warps
			slot := warp
			if f.columns {
				places, slot = 32*f.warps, k.ThreadX()
			}
			values, indices := k.SharedArray(4*places, 16), k.SharedArray(4*places, 16)
			write := func() {
				values.Index(slot, 4).StoreF32(0, best.x)
				indices.Index(slot, 4).StoreU32(0, best.at)
			}
			if f.columns {
				write()
			} else {
				k.Guard(k.Lane().Eq(ptx.U(0)), write)
			}
			k.Barrier()
			v, i, stride := values, indices, 4
			if f.columns {
				v, i, stride = values.Index(k.Lane(), 4), indices.Index(k.Lane(), 4), 4*32
			}
			for w := range f.warps {
				take(found{v.LoadF32(w * stride), i.LoadU32(w * stride)})
			}
		}
		k.If(real, func() {
			if s.Hard {
				y.Index64(line.Add(best.at.MulWide(inner)), 4).StoreF32(0, k.VarF32(ptx.F(1)))
				return
			}
			y.Index64(outer.MulWide(inner).Add(column.Wide()), 8).StoreU64(0, best.at.Wide())
		})
	})
}
