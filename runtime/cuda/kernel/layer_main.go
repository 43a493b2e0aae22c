package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// layerMain returns the kernel that computes the states from those before the tile, and the rest of a layer. It sums
// up the states before the tile from the ends of the other tiles, of groups and, if summed, of spans. If keep is
// set, it writes the state after the last step. That is the sum of the state that the steps of the last tile reach
// from zero, and of the state before the tile, carried on in float64.
func layerMain(f LayerForm, grouped, summed, keep bool) *Code {
	return New("layer", layerThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // otherwise the compiler spills a register to fit one more block
		l := newLayerFrame(f, k, f.steps(), 4*f.steps()*layerChunk+8*2*layerChunk)
		l.split()
		first, last, y := k.PtrParam("first"), k.PtrParam("last"), k.PtrParam("y")
		var before [2][2]map[bool]*[2]ptx.F32
		l.main(y, func(states ptx.Shared, chunk ptx.U32) {
			l.carry(states, chunk, first, grouped || summed, summed, keep)
		}, func(states ptx.Shared, chunk ptx.U32) {
			for c := range before {
				before[c] = [2]map[bool]*[2]ptx.F32{{}, {}}
				for _, forward := range []bool{true, false} {
					if forward && f.Forward || !forward && f.Backward {
						for p, z := range l.before(states, c, forward) {
							before[c][p][forward] = &z
						}
					}
				}
			}
		}, func(v [][][4]ptx.F32, chunk ptx.U32) {
			for c := range before {
				both := l.states(v, chunk, c)
				for p := range both {
					x := l.scan(&both[p], before[c][p])
					for n, z := range x {
						v[n/2][c][2*(n%2)+p] = z
					}
				}
				if keep && f.Forward {
					k.If(l.tile.Add(ptx.U(1)).Eq(l.tiles), func() {
						for p := range both {
							l.keep(&both[p], chunk, c, p, last)
						}
					})
				}
			}
		})
	})
}

// main computes a layer from u to y. For each chunk of states it calls begin; then, once all threads see what begin
// has written to states, read; then scan, which turns B u into states.
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
			l.multiply(acc, states, layerChunk, from.Sub(chunk.Mul(ptx.U(blocks))), to.Sub(chunk.Mul(ptx.U(blocks))), weights,
				Float32)
		})
		k.Barrier()
	})
	l.finish(acc, y)
}

// carry sums up the states before the tile of a chunk, and stores them in shared memory: for each direction
// layerChunk real parts, then as many imaginary ones. With keep, the carried part of the last state is in kept.
func (l *layerFrame) carry(to ptx.Shared, chunk ptx.U32, first ptx.Addr, grouped, summed, keep bool) {
	k, f, powers := l.k, &l.f, l.powers
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
					re, im := k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))
					k.Guard(i.Add(ptx.U(q)).Lt(count), func() {
						re.Set(at.LoadF32(0))
						im.Set(at.LoadF32(4 * f.States))
					})
					end[q] = complexF64{re.F64(), im.F64()}
				}
				for q := range end {
					next := p.fma(z, end[q])
					k.Guard(i.Add(ptx.U(q)).Lt(count), func() { z.set(next) })
				}
			})
		}
		end := func(ends ptx.Addr, tile ptx.U32) complexF64 {
			at := l.endAt(ends, tile, j)
			return complexF64{at.LoadF32(0).F64(), at.LoadF32(4 * f.States).F64()}
		}
		power := func(row ptx.U32) complexF64 {
			at := powers.Index(row.Mul(ptx.U(2*f.States)).Add(j), 8)
			return complexF64{at.ConstF64(0), at.ConstF64(8 * f.States)}
		}
		overSpan := func() complexF64 {
			at := powers.Index(j, 8).Add(ptx.L(uint64(16 * f.States)))
			return complexF64{at.ConstF64(0), at.ConstF64(8 * f.States)}
		}
		// groups processes count groups of a span, each ending with a tile; within processes tiles of a group.
		groups := func(ends ptx.Addr, count, tile ptx.U32) {
			k.If(count.Gt(ptx.U(0)), func() {
				row := l.group.Add(ptx.U(3))
				high := count.Div(l.root)
				low := count.Sub(high.Mul(l.root))
				part := power(row.Add(low)).fma(z, complexF64{ptx.D(0), ptx.D(0)})
				z.set(power(row.Add(l.root).Add(high)).fma(part, end(ends, tile)))
			})
		}
		within := func(ends ptx.Addr, count, tile ptx.U32) {
			k.If(count.Gt(ptx.U(0)), func() { z.set(power(count.Add(ptx.U(3))).fma(z, end(ends, tile))) })
		}
		// upTo sums up everything before tile i, counted in the direction of the scan.
		upTo := func(ends ptx.Addr, i ptx.U32, tile func(i ptx.U32) ptx.U32) {
			p = overSpan()
			group := i.Div(l.group)
			if summed {
				span := group.Div(l.span)
				per := l.span.Mul(l.group)
				sum(ends, span, func(q ptx.U32) ptx.U32 { return tile(q.MAD(per, per).Sub(ptx.U(1))) })
				groups(ends, group.Sub(span.Mul(l.span)), tile(group.Mul(l.group).Sub(ptx.U(1))))
			} else {
				sum(ends, group, func(q ptx.U32) ptx.U32 { return tile(q.MAD(l.group, l.group).Sub(ptx.U(1))) })
			}
			within(ends, i.Sub(group.Mul(l.group)), tile(i.Sub(ptx.U(1))))
		}
		// behind is upTo in the backward direction, with the groups of the forward scan: the last one may be
		// shorter, and nothing comes after it.
		behind := func() {
			after := l.tiles.Sub(ptx.U(1))
			group, final := l.tile.Div(l.group), after.Div(l.group)
			p = overSpan()
			if summed {
				span, last := group.Div(l.span), final.Div(l.span)
				sum(l.back, last.Sub(span), func(q ptx.U32) ptx.U32 { return last.Sub(q).Mul(l.span).Mul(l.group) })
				count := span.MAD(l.span, l.span).Sub(ptx.U(1)).Min(final).Sub(group)
				groups(l.back, count, group.MAD(l.group, l.group))
			} else {
				sum(l.back, final.Sub(group), func(q ptx.U32) ptx.U32 { return final.Sub(q).Mul(l.group) })
			}
			count := group.MAD(l.group, l.group).Sub(ptx.U(1)).Min(after).Sub(l.tile)
			within(l.back, count, l.tile.Add(ptx.U(1)))
		}
		fore := func() {
			k.If(first.U64().Ne(ptx.L(0)), func() {
				z.set(f.loadState(first.Index64(l.sample.MulWide(ptx.U(2*f.States)).Add(j.Wide()), f.stateSize())))
			})
			tile := func(i ptx.U32) ptx.U32 { return i }
			if grouped {
				upTo(l.fore, l.tile, tile)
			} else {
				sum(l.fore, l.tile, tile)
			}
		}
		back := func() {
			after := l.tiles.Sub(ptx.U(1))
			tile := func(i ptx.U32) ptx.U32 { return after.Sub(i) }
			switch {
			case grouped && f.Forward:
				behind()
			case grouped:
				upTo(l.back, after.Sub(l.tile), tile)
			default:
				sum(l.back, after.Sub(l.tile), tile)
			}
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
	if keep && f.Forward {
		k.If(works.And(forward).And(l.tile.Add(ptx.U(1)).Eq(l.tiles)), func() {
			at := powers.Index(j, 8).Add(ptx.L(uint64(32 * f.States))) // over the last tile
			p := complexF64{at.ConstF64(0), at.ConstF64(8 * f.States)}
			z := p.fma(z, complexF64{ptx.D(0), ptx.D(0)})
			l.kept().Index(mine, 16).StoreF64s(0, z.re, z.im)
		})
	}
}

// kept returns where carry stores states of a chunk: layerChunk complex numbers in float64.
func (l *layerFrame) kept() ptx.Shared {
	return l.shared.Add(ptx.U(4 * l.rows * (l.f.width() + layerChunk)))
}

// keep writes a state after the last step. All threads of the last tile call it; the thread with the last step
// writes.
func (l *layerFrame) keep(s *layerState, chunk ptx.U32, c, p int, last ptx.Addr) {
	k, f := l.k, &l.f
	re, im := l.reached(s, true, nil)
	re, im = l.shift(re, true, 1), l.shift(im, true, 1)
	first := l.edge(true)
	endRe, endIm := k.VarF32(first.SelectF32(ptx.F(0), re)), k.VarF32(first.SelectF32(ptx.F(0), im))
	for n := range s.wRe {
		re, im := s.advance(endRe, endIm, s.wRe[n], s.wIm[n])
		k.Guard(l.step(n/2, n%2).Lt(l.length), func() { endRe.Set(re); endIm.Set(im) })
	}
	j := l.stateIndex(chunk, c, p)
	from := l.step(0, 0)
	holds := from.Lt(l.length).And(from.Add(ptx.U(l.share)).Ge(l.length)).And(j.Lt(ptx.U(f.States)))
	k.If(holds, func() {
		at := last.Index64(l.sample.MulWide(ptx.U(2*f.States)).Add(j.Wide()), f.stateSize())
		slot := l.warp.MAD(ptx.U(16), l.t.Shl(ptx.U(1))).Add(ptx.U(8*c + p))
		z := l.kept().Index(slot, 16).LoadF64s(0, 2)
		f.storeState(at, complexF64{z[0].Add(endRe.F64()), z[1].Add(endIm.F64())})
	})
}

// before returns the thread's two states of a tile of states before the tile, in one direction.
func (l *layerFrame) before(states ptx.Shared, c int, forward bool) (z [2][2]ptx.F32) {
	for p := range z {
		slot := l.warp.MAD(ptx.U(16), l.t.Shl(ptx.U(1))).Add(ptx.U(8*c + p))
		if !forward {
			slot = slot.Add(ptx.U(2 * layerChunk))
		}
		at := states.Index(slot, 4)
		z[p] = [2]ptx.F32{at.LoadF32(0), at.LoadF32(4 * layerChunk)}
	}
	return z
}

// scan returns the real parts of the states at the thread's steps.
func (l *layerFrame) scan(s *layerState, before map[bool]*[2]ptx.F32) []ptx.F32 {
	x := make([]ptx.F32, len(s.wRe))
	start := func(forward bool) (re, im ptx.F32) {
		re, im = l.reached(s, forward, before[forward])
		re, im = l.shift(re, forward, 1), l.shift(im, forward, 1)
		edge, b := l.edge(forward), before[forward]
		return edge.SelectF32(b[0], re), edge.SelectF32(b[1], im)
	}
	if l.f.Forward {
		re, im := start(true)
		for n := range x {
			re, im = s.advance(re, im, s.wRe[n], s.wIm[n])
			x[n] = re
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

// column returns the first column of tile c of the warp's results.
func (l *layerFrame) column(c int) ptx.U32 {
	return l.warp.MAD(ptx.U(l.f.tiles()), ptx.U(c)).Shl(ptx.U(3)).Add(l.t.Shl(ptx.U(1)))
}

// numbers reads the thread's two numbers of tile c of columns, from a row of width() in the table.
func (l *layerFrame) numbers(place, c int) []ptx.F32 {
	return l.table.Index(l.column(c), 4).Add(ptx.L(uint64(4*place))).ConstF32s(0, 2)
}

// finish computes the results of the layer from C x. It processes tiles of columns one by one, so that only few
// constants of features are in registers.
func (l *layerFrame) finish(acc [][][4]ptx.F32, y ptx.Addr) {
	k, f := l.k, &l.f
	width, outs := f.width(), f.tiles()
	firstTile := l.warp.Mul(ptx.U(outs))
	u := l.read(outs, l.shared, width, firstTile)
	// each computes the numbers of a tile of columns from constants of its features at the given positions.
	each := func(places []int, body func(i, c, n int, x []ptx.F32) ptx.F32) [][][4]ptx.F32 {
		out := make([][][4]ptx.F32, len(acc))
		for c := range outs {
			var rows [][]ptx.F32
			for _, at := range places {
				rows = append(rows, l.numbers(at, c))
			}
			for i := range acc {
				var y [4]ptx.F32
				for n := range y {
					var x []ptx.F32
					for _, r := range rows {
						x = append(x, r[n%2])
					}
					y[n] = body(i, c, n, x)
				}
				out[i] = append(out[i], y)
			}
		}
		return out
	}
	now := each([]int{l.places.direct, l.places.direct + width}, func(i, c, n int, x []ptx.F32) ptx.F32 {
		return x[0].FMA(u[i][c][n], acc[i][c][n].Add(x[1]))
	})
	for s, stage := range f.Stages {
		var places []int
		for r := range stage.Numbers {
			places = append(places, l.places.numbers[s]+r*width)
		}
		if !stage.Product {
			began := now
			now = each(places, func(i, c, n int, x []ptx.F32) ptx.F32 {
				return Expression(k, stage.Element, append([]ptx.F32{began[i][c][n], began[i][c][n], u[i][c][n]}, x...)...)
			})
			continue
		}
		k.Barrier() // all have read it
		l.write(now, l.shared, width, firstTile)
		k.Barrier()
		result := l.products(outs)
		blocks := layerBlocks(f)
		place := l.places.product[s]
		weights := l.table.Index(l.warp, 4*64*outs*width/8).Add(ptx.L(uint64(4 * place)))
		l.multiply(result, l.shared, width, ptx.U(0), ptx.U(blocks), weights, f.Precision)
		var began [][][4]ptx.F32
		column := -1
		now = each(append([]int{place + layerWarps*width/8*64*outs}, places...), func(i, c, n int, x []ptx.F32) ptx.F32 {
			if c != column {
				began, column = l.read(1, l.shared, width, firstTile.Add(ptx.U(c))), c
			}
			in := []ptx.F32{result[i][c][n].Add(x[0]), began[i][0][n], u[i][c][n]}
			return Expression(k, stage.Element, append(in, x[1:]...)...)
		})
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

// layerBlocks returns the number of blocks of a product over all features.
func layerBlocks(f *LayerForm) int { return ceilDiv(f.Features, 8) }
