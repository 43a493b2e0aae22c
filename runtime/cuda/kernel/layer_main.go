package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// layerMain computes the states from those before the tile, and the rest of a layer. With inline it sums up the states
// before the tile from the ends of the other tiles; with keep it writes the state after the last step.
func layerMain(f LayerForm, inline, keep bool) *Code {
	return New("layer", layerThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // without it the compiler spills a register for one more block
		l := newLayerFrame(f, k, 4*f.steps()*layerChunk)
		powers, first, last, y := k.PtrParam("powers"), k.PtrParam("first"), k.PtrParam("last"), k.PtrParam("y")
		var before [2][2]map[bool]*[2]ptx.F32
		l.main(y, func(states ptx.Shared, chunk ptx.U32) {
			if inline {
				l.carry(states, chunk, powers, first)
			}
		}, func(states ptx.Shared, chunk ptx.U32) {
			for c := range before {
				for p := range before[c] {
					before[c][p] = map[bool]*[2]ptx.F32{}
					for _, forward := range []bool{true, false} {
						if forward && f.Forward || !forward && f.Backward {
							before[c][p][forward] = l.before(states, chunk, c, p, forward, inline)
						}
					}
				}
			}
		}, func(v [][][4]ptx.F32, chunk ptx.U32) {
			for c := range before {
				both := l.states(v, chunk, c)
				for p := range both {
					x := l.scan(&both[p], before[c][p], l.stateIndex(chunk, c, p), last, keep)
					for n, z := range x {
						v[n/2][c][2*(n%2)+p] = z
					}
				}
			}
		})
	})
}

// main computes a layer from u to y. For each chunk of states it calls begin, then, when all threads see what that has left
// in the memory of states, read; then scan, which turns B u into states.
func (l *layerFrame) main(y ptx.Addr, begin, read func(states ptx.Shared, chunk ptx.U32),
	scan func(v [][][4]ptx.F32, chunk ptx.U32)) {
	k, f := l.k, &l.f
	states := l.shared.Add(ptx.U(4 * l.rows * f.width())) // (rows, layerChunk)
	l.load()
	l.loaded()
	outs := f.tiles()
	acc := l.products(outs)
	ranges := l.table.Index(l.warp, 12).Add(ptx.L(uint64(4 * l.places.outRange)))
	outFirst, outEnd, outAt := ranges.ConstU32(0), ranges.ConstU32(4), ranges.ConstU32(8)
	k.For(ptx.U(0), ptx.U(f.chunks()), ptx.U(1), func(chunk ptx.U32) {
		begin(states, chunk)
		v := l.inputs(chunk)
		k.Barrier()
		read(states, chunk)
		k.Barrier()
		scan(v, chunk)
		l.write(v, states, layerChunk, l.warp.Shl(ptx.U(1)))
		k.Barrier()
		const blocks = layerChunk / 8
		from := outFirst.Max(chunk.Mul(ptx.U(blocks)))
		to := outEnd.Min(chunk.MAD(ptx.U(blocks), ptx.U(blocks)))
		k.If(from.Lt(to), func() {
			weights := l.table.Index(outAt, 4).Index(from.Sub(outFirst), 256*outs)
			// the chunk's columns count from 0
			l.multiply(acc, states, layerChunk, from.Sub(chunk.Mul(ptx.U(blocks))), to.Sub(chunk.Mul(ptx.U(blocks))), weights)
		})
		k.Barrier()
	})
	l.finish(acc, y)
}

// carry sums up the states before the tile of a chunk, and leaves them in shared memory: for each direction layerChunk real
// parts, then as many imaginary ones.
func (l *layerFrame) carry(to ptx.Shared, chunk ptx.U32, powers, first ptx.Addr) {
	k, f := l.k, &l.f
	forward := k.ThreadX().Lt(ptx.U(layerChunk))
	mine := k.ThreadX().And(ptx.U(layerChunk - 1))
	j := chunk.MAD(ptx.U(layerChunk), mine)
	z := varComplex(k)
	works := j.Lt(ptx.U(f.States))
	switch {
	case f.Forward && !f.Backward:
		works = works.And(forward)
	case !f.Forward:
		works = works.And(forward.Not())
	}
	k.If(works, func() {
		p := complexF64{powers.Index(j, 8).ConstF64(0), powers.Index(j, 8).ConstF64(8 * f.States)}
		sum := func(ends ptx.Addr, count ptx.U32, tile func(i ptx.U32) ptx.U32) {
			const together = 4
			k.For(ptx.U(0), count, ptx.U(together), func(i ptx.U32) {
				var end [together]complexF64
				for q := range end {
					at := l.endAt(ends, tile(i.Add(ptx.U(q)).Min(count.Sub(ptx.U(1)))), j)
					end[q] = complexF64{at.LoadF32(0).F64(), at.LoadF32(4 * f.States).F64()}
				}
				for q := range end {
					next := p.fma(z, end[q])
					k.Guard(i.Add(ptx.U(q)).Lt(count), func() { z.set(next) })
				}
			})
		}
		fore := func() {
			k.If(first.U64().Ne(ptx.L(0)), func() {
				size := 8
				if f.State32 {
					size = 4
				}
				at := first.Index64(l.sample.MulWide(ptx.U(2*f.States)).Add(j.Wide()), size)
				if f.State32 {
					z.set(complexF64{at.LoadF32(0).F64(), at.LoadF32(4 * f.States).F64()})
				} else {
					z.set(complexF64{at.LoadF64(0), at.LoadF64(8 * f.States)})
				}
			})
			sum(l.fore, l.tile, func(i ptx.U32) ptx.U32 { return i })
		}
		back := func() {
			after := l.tiles.Sub(ptx.U(1))
			sum(l.back, after.Sub(l.tile), func(i ptx.U32) ptx.U32 { return after.Sub(i) })
		}
		switch {
		case f.Forward && f.Backward:
			k.IfElse(forward, fore, back)
		case f.Forward:
			fore()
		default:
			back()
		}
	})
	slot := k.ThreadX().And(ptx.U(layerChunk)).Shl(ptx.U(1)).Add(mine)
	at := to.Index(slot, 4)
	at.StoreF32(0, z.re.F32())
	at.StoreF32(4*layerChunk, z.im.F32())
}

// before is the state of the thread before the tile, in a direction.
func (l *layerFrame) before(states ptx.Shared, chunk ptx.U32, c, p int, forward, inline bool) *[2]ptx.F32 {
	k := l.k
	if inline {
		slot := l.warp.MAD(ptx.U(16), l.t.Shl(ptx.U(1))).Add(ptx.U(8*c + p))
		if !forward {
			slot = slot.Add(ptx.U(2 * layerChunk))
		}
		at := states.Index(slot, 4)
		return &[2]ptx.F32{at.LoadF32(0), at.LoadF32(4 * layerChunk)}
	}
	re, im := k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))
	j := l.stateIndex(chunk, c, p)
	ends := l.fore
	if !forward {
		ends = l.back
	}
	at := l.endAt(ends, l.tile, j)
	k.Guard(l.edge(forward).And(j.Lt(ptx.U(l.f.States))), func() {
		re.Set(at.LoadF32(0))
		im.Set(at.LoadF32(4 * l.f.States))
	})
	return &[2]ptx.F32{re, im}
}

// scan returns the real parts of the states at the thread's steps.
func (l *layerFrame) scan(s *layerState, before map[bool]*[2]ptx.F32, j ptx.U32, last ptx.Addr, keep bool) []ptx.F32 {
	k := l.k
	x := make([]ptx.F32, len(s.wRe))
	start := func(forward bool) (re, im ptx.F32) {
		re, im = l.reached(s, forward, before[forward])
		re, im = l.shift(re, forward, 1), l.shift(im, forward, 1)
		edge, b := l.edge(forward), before[forward]
		return edge.SelectF32(b[0], re), edge.SelectF32(b[1], im)
	}
	if l.f.Forward {
		re, im := start(true)
		endRe, endIm := ptx.F32{}, ptx.F32{}
		if keep {
			endRe, endIm = k.VarF32(re), k.VarF32(im)
		}
		for n := range x {
			re, im = s.advance(re, im, s.wRe[n], s.wIm[n])
			x[n] = re
			if keep {
				k.Guard(l.step(n/2, n%2).Lt(l.length), func() { endRe.Set(re); endIm.Set(im) })
			}
		}
		if keep {
			// the thread of the last step
			from := l.step(0, 0)
			holds := from.Lt(l.length).And(from.Add(ptx.U(l.share)).Ge(l.length)).And(j.Lt(ptx.U(l.f.States)))
			k.If(holds, func() {
				size := 8
				if l.f.State32 {
					size = 4
				}
				at := last.Index64(l.sample.MulWide(ptx.U(2*l.f.States)).Add(j.Wide()), size)
				if l.f.State32 {
					at.StoreF32(0, endRe)
					at.StoreF32(4*l.f.States, endIm)
				} else {
					at.StoreF64(0, endRe.F64())
					at.StoreF64(8*l.f.States, endIm.F64())
				}
			})
		}
	}
	if l.f.Backward {
		re, im := start(false)
		for n := len(x) - 1; n >= 0; n-- {
			if l.f.Forward {
				x[n] = x[n].Add(re)
			} else {
				x[n] = re
			}
			re, im = s.advance(re, im, s.wRe[n], s.wIm[n])
		}
	}
	return x
}

// column is the first column of tile c of the warp's results.
func (l *layerFrame) column(c int) ptx.U32 {
	return l.warp.MAD(ptx.U(l.f.tiles()), ptx.U(c)).Shl(ptx.U(3)).Add(l.t.Shl(ptx.U(1)))
}

// numbers reads the thread's two numbers of each tile of columns, from a row of width() in the table.
func (l *layerFrame) numbers(place int) [][]ptx.F32 {
	out := make([][]ptx.F32, l.f.tiles())
	for c := range out {
		out[c] = l.table.Index(l.column(c), 4).Add(ptx.L(uint64(4*place))).ConstF32s(0, 2)
	}
	return out
}

// finish computes the results of the layer from C x.
func (l *layerFrame) finish(acc [][][4]ptx.F32, y ptx.Addr) {
	k, f := l.k, &l.f
	width, outs := f.width(), f.tiles()
	firstTile := l.warp.Mul(ptx.U(outs))
	u := l.read(outs, l.shared, width, firstTile)
	d, offset := l.numbers(l.places.direct), l.numbers(l.places.direct+width)
	each := func(body func(i, c, n int)) {
		for c := range outs {
			for i := range acc {
				for n := range 4 {
					body(i, c, n)
				}
			}
		}
	}
	now := l.products(outs)
	each(func(i, c, n int) {
		now[i][c][n] = d[c][n%2].FMA(u[i][c][n], acc[i][c][n].Add(offset[c][n%2]))
	})
	for s, stage := range f.Stages {
		result := now
		if stage.Product {
			k.Barrier() // all have read what lies there
			l.write(now, l.shared, width, firstTile)
			k.Barrier()
			result = l.products(outs)
			blocks := layerBlocks(f)
			place := l.places.product[s]
			weights := l.table.Index(l.warp, 4*64*outs*width/8).Add(ptx.L(uint64(4 * place)))
			l.multiply(result, l.shared, width, ptx.U(0), ptx.U(blocks), weights)
			bias := l.numbers(place + layerWarps*width/8*64*outs)
			each(func(i, c, n int) { result[i][c][n] = result[i][c][n].Add(bias[c][n%2]) })
		}
		rows := make([][][]ptx.F32, stage.Numbers)
		for r := range rows {
			rows[r] = l.numbers(l.places.numbers[s] + r*width)
		}
		next := make([][][4]ptx.F32, len(now))
		for c := range outs {
			column := make([][][4]ptx.F32, len(now)) // that the stage began with
			if stage.Product {
				column = l.read(1, l.shared, width, firstTile.Add(ptx.U(c)))
			}
			for i := range now {
				began := now[i][c]
				if stage.Product {
					began = column[i][0]
				}
				var y [4]ptx.F32
				for n := range y {
					in := []ptx.F32{result[i][c][n], began[n], u[i][c][n]}
					for _, r := range rows {
						in = append(in, r[c][n%2])
					}
					y[n] = Expression(k, stage.Element, in...)
				}
				next[i] = append(next[i], y)
			}
		}
		now = next
	}
	for i := range now {
		for half := range 2 {
			step := l.step(i, half)
			row := l.sample.MulWide(l.length).Add(step.Wide())
			for c := range outs {
				at := y.Index64(row.MAD(ptx.L(uint64(f.Features)), l.column(c).Wide()), 4)
				k.Guard(step.Lt(l.length).And(l.column(c).Lt(ptx.U(f.Features))), func() {
					at.StoreF32s(0, now[i][c][2*half], now[i][c][2*half+1])
				})
			}
		}
	}
}

// layerBlocks is the number of blocks of a product over all features.
func layerBlocks(f *LayerForm) int { return ceilDiv(f.Features, 8) }
