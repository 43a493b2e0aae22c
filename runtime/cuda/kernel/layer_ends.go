package kernel

import "github.com/essmc/essmc/runtime/cuda/ptx"

// layerEnds returns the kernel that computes the states that a tile reaches from zero or, if grouped, those that the
// tiles of the group reach up to its end. If summed, the last block of a span also sums up those of its groups. kept
// is LayerForm.kept of the groups.
func layerEnds(f LayerForm, grouped, summed bool, kept int) *Code {
	return New("layer_ends", layerThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // otherwise the compiler spills a register to fit one more block
		extra := 0
		if grouped {
			extra = f.groupShared(kept)
		}
		l := newLayerFrame(f, k, f.steps(), extra)
		l.split()
		counts := k.PtrParam("counts")
		if grouped {
			l.groupEnds()
		} else {
			l.tileEnds()
		}
		if summed {
			l.spanEnds(counts)
		}
	})
}

// tileEnds computes the states that a tile reaches from zero. Tiles are counted in the direction of the scan, or of
// the forward one of two.
func (l *layerFrame) tileEnds() {
	k, f := l.k, &l.f
	if !f.Forward {
		l.tile = l.tiles.Sub(ptx.U(1)).Sub(l.tile)
		l.begin = l.tile.Mul(ptx.U(l.rows))
	}
	l.load()
	l.loaded()
	k.For(ptx.U(0), ptx.U(f.chunks()), ptx.U(1), func(chunk ptx.U32) {
		acc := l.inputs(chunk)
		for c := range 2 {
			both := l.states(acc, chunk, c)
			for _, d := range []struct {
				is, forward bool
				ends        ptx.Addr
			}{{f.Forward, true, l.fore}, {f.Backward, false, l.back}} {
				if !d.is {
					continue
				}
				var z [2][2]ptx.F32
				for p := range both {
					re, im := l.reached(&both[p], d.forward, nil)
					z[p] = [2]ptx.F32{re, im}
				}
				l.storeEnds(d.ends, l.edge(!d.forward), chunk, c, z)
			}
		}
	})
}

// groupEnds processes the tiles of a group, in the direction of the scan, or of the forward one of two. States are
// carried in float64 in shared memory, where each thread reads only its own. With two scans, the backward scan's
// states are there too, in float32.
func (l *layerFrame) groupEnds() {
	k, f := l.k, &l.f
	sums := l.shared.Add(ptx.U(4 * l.rows * f.width()))
	two := f.directions() == 2
	forward, ends := f.Forward, l.fore
	if !forward {
		ends = l.back
	}
	first := l.tile.Mul(l.group)
	end := first.Add(l.group).Min(l.tiles)
	k.For(first, end, ptx.U(1), func(i ptx.U32) {
		l.tile = i
		if !forward {
			l.tile = l.tiles.Sub(ptx.U(1)).Sub(i)
		}
		l.begin = l.tile.Mul(ptx.U(l.rows))
		l.load()
		l.loaded()
		k.For(ptx.U(0), ptx.U(f.chunks()), ptx.U(1), func(chunk ptx.U32) {
			acc := l.inputs(chunk)
			for c := range 2 {
				both := l.states(acc, chunk, c)
				var ahead, behind [2][2]ptx.F32
				for p := range both {
					re, im := l.reached(&both[p], forward, nil)
					j := l.stateIndex(chunk, c, p)
					z := complexF64{k.VarF64(re.F64()), k.VarF64(im.F64())}
					k.If(l.edge(!forward).And(j.Lt(ptx.U(f.States))), func() {
						sum := sums.Index(j, 16)
						k.If(i.Gt(first), func() {
							at := l.powers.Index(j, 8)
							old := sum.LoadF64s(0, 2)
							z.set(complexF64{at.ConstF64(0), at.ConstF64(8 * f.States)}.fma(complexF64{old[0], old[1]}, z))
						})
						sum.StoreF64s(0, z.re, z.im)
					})
					ahead[p] = [2]ptx.F32{z.re.F32(), z.im.F32()}
					if two {
						re, im := l.reached(&both[p], false, nil)
						behind[p] = [2]ptx.F32{re, im}
					}
				}
				l.storeEnds(ends, l.edge(!forward), chunk, c, ahead)
				if two {
					l.storeBack(i.Sub(first), chunk, c, behind)
				}
			}
		})
		k.Barrier() // all have read u
	})
	if two {
		l.groupBack(first, end)
	}
}

// groupBack computes the states that a backward scan reaches from each tile of a group on, over the rest of the
// group. It starts from the states that the scan reaches from zero over each tile. Each thread reads only its own.
func (l *layerFrame) groupBack(first, end ptx.U32) {
	k, f := l.k, &l.f
	k.For(ptx.U(0), ptx.U(f.chunks()), ptx.U(1), func(chunk ptx.U32) {
		for c := range 2 {
			var z, tile [2]complexF64
			for p := range z {
				j := l.stateIndex(chunk, c, p).Min(ptx.U(f.States - 1))
				over := l.powers.Index(j, 8)
				z[p], tile[p] = varComplex(k), complexF64{over.ConstF64(0), over.ConstF64(8 * f.States)}
			}
			k.For(first, end, ptx.U(1), func(i ptx.U32) {
				l.tile = first.Add(end).Sub(ptx.U(1)).Sub(i)
				var out [2][2]ptx.F32
				for p, x := range l.loadBack(l.tile.Sub(first), chunk, c) {
					z[p].set(tile[p].fma(z[p], complexF64{x[0].F64(), x[1].F64()}))
					out[p] = [2]ptx.F32{z[p].re.F32(), z[p].im.F32()}
				}
				l.storeEnds(l.back, l.edge(true), chunk, c, out)
			})
		}
	})
}

// backAt returns the shared memory for the real part of the thread's first of two states of tile c of states, which
// the backward scan reaches from zero over a tile of the group. The second state follows; imaginary parts are
// padded() numbers further on.
func (l *layerFrame) backAt(tile, chunk ptx.U32, c int) ptx.Shared {
	from := l.shared.Add(ptx.U(4*l.rows*l.f.width() + l.f.groupShared(0)))
	return from.Index(tile, 8*l.f.padded()).Index(l.stateIndex(chunk, c, 0), 4)
}

func (l *layerFrame) storeBack(tile, chunk ptx.U32, c int, z [2][2]ptx.F32) {
	at := l.backAt(tile, chunk, c)
	l.k.Guard(l.edge(true), func() {
		for part := range 2 {
			at.StoreF32s(4*l.f.padded()*part, z[0][part], z[1][part])
		}
	})
}

// loadBack reads the numbers that storeBack has written, or returns 0 in other threads.
func (l *layerFrame) loadBack(tile, chunk ptx.U32, c int) (z [2][2]ptx.F32) {
	for p := range z {
		z[p] = [2]ptx.F32{l.k.VarF32(ptx.F(0)), l.k.VarF32(ptx.F(0))}
	}
	at := l.backAt(tile, chunk, c)
	l.k.Guard(l.edge(true), func() {
		for part := range 2 {
			x := at.LoadF32s(4*l.f.padded()*part, 2)
			z[0][part].Set(x[0])
			z[1][part].Set(x[1])
		}
	})
	return z
}

// spanEnds counts the block. In the last block of a span, it replaces the states at the ends of the span's groups by
// the states that the scan reaches there from zero at the start of the span. For the last group of the sequence,
// which no tile follows, they stay.
func (l *layerFrame) spanEnds(counts ptx.Addr) {
	k, f := l.k, &l.f
	groups := l.tiles.Add(l.group).Sub(ptx.U(1)).Div(l.group)
	number := k.BlockX().Div(l.span)
	begin := number.Mul(l.span)
	end := begin.Add(l.span).Min(groups)
	others := end.Sub(begin).Sub(ptx.U(1))
	k.Barrier() // the fence covers the writes of all threads of the block
	k.If(k.ThreadX().Eq(ptx.U(0)), func() {
		spans := groups.Add(l.span).Sub(ptx.U(1)).Div(l.span)
		k.Fence()
		n := counts.Index64(l.sample.MulWide(spans).Add(number.Wide()), 4).Count(others)
		k.Fence()
		l.shared.StoreU32(0, n)
	})
	k.Barrier()
	// sum processes count groups in the order of the scan; tile is the one at the end of a group.
	sum := func(ends ptx.Addr, j, count ptx.U32, tile func(i ptx.U32) ptx.U32) {
		row := l.group.Add(ptx.U(4)).Mul(ptx.U(2 * f.States)) // over one group
		at := l.powers.Index(row.Add(j), 8)
		p, z := complexF64{at.ConstF64(0), at.ConstF64(8 * f.States)}, varComplex(k)
		k.For(ptx.U(0), count, ptx.U(spanTogether), func(i ptx.U32) {
			var at [spanTogether]ptx.Addr
			var x [spanTogether][2]ptx.F32
			for q := range at {
				at[q] = l.endAt(ends, tile(i.Add(ptx.U(q)).Min(count.Sub(ptx.U(1)))), j)
				x[q] = [2]ptx.F32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
				k.Guard(i.Add(ptx.U(q)).Lt(count), func() {
					x[q][0].Set(at[q].LoadF32(0))
					x[q][1].Set(at[q].LoadF32(4 * f.States))
				})
			}
			for q := range at {
				next := p.fma(z, complexF64{x[q][0].F64(), x[q][1].F64()})
				re, im := next.re.F32(), next.im.F32()
				k.Guard(i.Add(ptx.U(q)).Lt(count), func() { z.set(next) })
				changes := i.Add(ptx.U(q)).Lt(count)
				if q == 0 {
					changes = changes.And(i.Gt(ptx.U(0)))
				}
				k.Guard(changes, func() {
					at[q].StoreF32(0, re)
					at[q].StoreF32(4*f.States, im)
				})
			}
		})
	}
	each := func(first, step ptx.U32, ends ptx.Addr, count ptx.U32, tile func(i ptx.U32) ptx.U32) {
		k.For(first, ptx.U(f.States), step, func(j ptx.U32) { sum(ends, j, count, tile) })
	}
	k.If(l.shared.LoadU32(0).Eq(others), func() {
		ahead := end.Min(groups.Sub(ptx.U(1))).Sub(begin)
		last := func(i ptx.U32) ptx.U32 { return begin.Add(i).MAD(l.group, l.group).Sub(ptx.U(1)) }
		switch {
		case f.directions() == 2: // the groups of the forward scan
			const half = layerThreads / 2
			k.IfElse(k.ThreadX().Lt(ptx.U(half)), func() {
				each(k.ThreadX(), ptx.U(half), l.fore, ahead, last)
			}, func() {
				behind := end.Sub(begin.Max(ptx.U(1)))
				each(k.ThreadX().Sub(ptx.U(half)), ptx.U(half), l.back, behind, func(i ptx.U32) ptx.U32 {
					return end.Sub(ptx.U(1)).Sub(i).Mul(l.group)
				})
			})
		case f.Forward:
			each(k.ThreadX(), ptx.U(layerThreads), l.fore, ahead, last)
		default:
			each(k.ThreadX(), ptx.U(layerThreads), l.back, ahead, func(i ptx.U32) ptx.U32 {
				return l.tiles.Sub(ptx.U(1)).Sub(last(i))
			})
		}
	})
}
