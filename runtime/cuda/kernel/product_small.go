package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Products of few rows, as in steps of streams. A warp computes two columns for all rows, and reads their weights
// once. Each lane sums every 32nd number, or piece of 4 numbers, by fma; then lanes are added by halves.

const smallRows = 8

// Small reports whether p is computed in this way.
func (p *Product) Small() bool {
	return p.M <= smallRows && !p.Precision.words() && p.A.Window == nil && p.B.Window == nil && p.B.Inner == 1
}

func (p *Product) smallCalls() []Call {
	rows := 1
	for rows < p.M {
		rows *= 2
	}
	f := p.form(blockTile{})
	f.wide = p.A.Inner == 1 && p.A.even(4) && p.B.even(4)
	args := []Arg{U32(p.M), U32(p.N), U32(p.K), U32(volume(p.Batch))}
	for _, d := range p.Batch {
		args = append(args, U32(d))
	}
	args = append(args, p.matrices()...)
	args = append(args, p.tail()...)
	y := min(volume(p.Batch), 65535)
	return []Call{NewCall(f.smallCode(rows), driver.Dim{X: uint32(ceil(p.N, 8)), Y: uint32(y),
		Z: uint32(ceil(volume(p.Batch), y))}, args...)}
}

func (f *productForm) smallCode(rows int) *Code {
	return New(fmt.Sprintf("product_rows_%d", rows), 128, func(k *ptx.Kernel) {
		m, n, depth := k.U32Param("m"), k.U32Param("n"), k.U32Param("k")
		batch := batchParams(k, f.batch)
		a, b, c := matrixParams(k, "a", batch), matrixParams(k, "b", batch), matrixParams(k, "c", batch)
		tail := f.tailParams(k, batch, m)
		lane := k.Lane()
		col := k.BlockX().MAD(ptx.U(8), k.ThreadX().Shr(ptx.U(5)).Shl(ptx.U(1)))
		k.If(col.Ge(n), k.Return)
		sums := make([][2]ptx.F32, rows)
		var fromA []ptx.Addr
		for r := range rows {
			sums[r] = [2]ptx.F32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
			fromA = append(fromA, a.base.Add(m.Sub(ptx.U(1)).Min(ptx.U(r)).Wide().Mul(a.row)))
		}
		fromB := [2]ptx.Addr{b.base.Add(col.Wide().Mul(b.row)),
			b.base.Add(col.Add(ptx.U(1)).Min(n.Sub(ptx.U(1))).Wide().Mul(b.row))}
		add := func(d ptx.U32, width int) {
			read := func(at ptx.Addr) []ptx.F32 {
				if width == 1 {
					return []ptx.F32{at.LoadF32(0)}
				}
				return at.LoadF32s(0, width)
			}
			var w [2][]ptx.F32
			for j := range w {
				w[j] = read(fromB[j].Index(d, 4))
			}
			for r := range rows {
				var at ptx.Addr
				if f.wide {
					at = fromA[r].Index(d, 4)
				} else {
					at = fromA[r].Add(d.Wide().Mul(a.inner))
				}
				for i, x := range read(at) {
					for j := range w {
						sums[r][j].Set(x.FMA(w[j][i], sums[r][j]))
					}
				}
			}
		}
		if f.wide {
			even := depth.And(ptx.U(^uint32(3)))
			k.For(lane.Shl(ptx.U(2)), even, ptx.U(128), func(d ptx.U32) { add(d, 4) })
			k.For(even.Add(lane), depth, ptx.U(32), func(d ptx.U32) { add(d, 1) })
		} else {
			k.For(lane, depth, ptx.U(32), func(d ptx.U32) { add(d, 1) })
		}
		for r := range rows {
			for j := range 2 {
				s := sums[r][j]
				for by := 16; by > 0; by /= 2 {
					s = s.Add(s.ShuffleXor(ptx.U(by)))
				}
				sums[r][j] = s
			}
		}
		// Lane r stores row r.
		k.If(lane.Lt(m), func() {
			x := []ptx.F32{sums[0][0], sums[0][1]}
			for r := 1; r < rows; r++ {
				here := lane.Eq(ptx.U(r))
				for j := range x {
					x[j] = here.SelectF32(sums[r][j], x[j])
				}
			}
			if f.pairs {
				f.store(c.at(lane, col.Shr(ptx.U(1))), tail(lane, col, x))
				return
			}
			f.store(c.at(lane, col), tail(lane, col, x[:1]))
			next := col.Add(ptx.U(1))
			k.If(next.Lt(n), func() { f.store(c.at(lane, next), tail(lane, next, x[1:])) })
		})
	})
}
