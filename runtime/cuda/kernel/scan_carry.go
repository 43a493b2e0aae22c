package kernel

import "github.com/essmc/essmc/runtime/cuda/ptx"

// carrySegments is the number of warps of a block that carries states over tiles. Each processes the same number of
// consecutive tiles.
const carrySegments = 8

// complexF64 is a complex number in registers.
type complexF64 struct{ re, im ptx.F64 }

func (k complexF64) set(z complexF64) { k.re.Set(z.re); k.im.Set(z.im) }

// fma returns p·z + w.
func (p complexF64) fma(z, w complexF64) complexF64 {
	return complexF64{p.im.Neg().FMA(z.im, p.re.FMA(z.re, w.re)), p.im.FMA(z.re, p.re.FMA(z.im, w.im))}
}

func varComplex(k *ptx.Kernel) complexF64 { return complexF64{k.VarF64(ptx.D(0)), k.VarF64(ptx.D(0))} }

// scanCarry turns the states that tiles reach from zero into those before the tiles, in place. A warp sums up a
// segment of tiles, adds the sums of the previous segments in order, and processes its segment once more.
func scanCarry(f ScanForm) *Code {
	f.Re, f.Im, f.Window = false, false, false
	return New("scan_carry", 32*carrySegments, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // otherwise the compiler spills a register to fit one more block
		s := newScanFrame(f, k)
		powers := k.PtrParam("powers")
		s.first = k.PtrParam("first")
		last := k.PtrParam("last")
		s.stateSize = k.U32Param("state_size")
		tiles := k.U32Param("tiles")
		fore, back := k.PtrParam("fore"), k.PtrParam("back")
		sumRe, sumIm := k.SharedArray(8*32*carrySegments, 8), k.SharedArray(8*32*carrySegments, 8)
		lane, segment := k.ThreadX().And(ptx.U(31)), k.ThreadX().Shr(ptx.U(5))
		s.j = k.BlockX().MAD(ptx.U(32), lane)
		live := s.j.Lt(s.states).And(s.sample.Lt(s.batch))
		per := tiles.Add(ptx.U(carrySegments - 1)).Div(ptx.U(carrySegments))
		from := segment.Mul(per).Min(tiles)
		to := from.Add(per).Min(tiles)

		stride := s.states.MulWide(ptx.U(8))
		var p [3]complexF64 // over a tile, a segment, the last tile
		before := varComplex(k)
		for i := range p {
			p[i] = varComplex(k)
		}
		k.If(live, func() {
			at := powers.Index(s.j, 8)
			for i := range p {
				p[i].re.Set(at.ConstF64(0))
				at = at.Add(stride)
				p[i].im.Set(at.ConstF64(0))
				at = at.Add(stride)
			}
			k.If(s.first.U64().Ne(ptx.L(0)), func() {
				before.re.Set(s.loadState(s.stateAt(s.first, s.j)))
				before.im.Set(s.loadState(s.stateAt(s.first, s.states.Add(s.j))))
			})
		})
		pass := func(ends ptx.Addr, forward bool) {
			place := func(i ptx.U32) ptx.Addr {
				s.tile = i
				if !forward {
					s.tile = tiles.Sub(ptx.U(1)).Sub(i)
				}
				return s.endAt(ends, tiles)
			}
			z := varComplex(k)
			// eachTile calls body for the tiles of the segment, with their ends loaded four at a time.
			eachTile := func(body func(i ptx.U32, at ptx.Addr, here ptx.Pred, end complexF64)) {
				k.If(live, func() {
					k.For(from, to, ptx.U(4), func(i ptx.U32) {
						var at [4]ptx.Addr
						var here [4]ptx.Pred
						var end [4]complexF64
						for q := range at {
							t := i.Add(ptx.U(q))
							here[q] = t.Lt(to)
							at[q] = place(t.Min(to.Sub(ptx.U(1))))
							end[q] = complexF64{at[q].LoadF32(0).F64(), at[q].Add(s.stride()).LoadF32(0).F64()}
						}
						for q := range at {
							body(i.Add(ptx.U(q)), at[q], here[q], end[q])
						}
					})
				})
			}
			eachTile(func(_ ptx.U32, _ ptx.Addr, here ptx.Pred, end complexF64) {
				next := p[0].fma(z, end)
				k.Guard(here, func() { z.set(next) })
			})
			slot := segment.MAD(ptx.U(32), lane)
			sumRe.Index(slot, 8).StoreF64(0, z.re)
			sumIm.Index(slot, 8).StoreF64(0, z.im)
			k.Barrier()
			if forward {
				z.set(before)
			} else {
				z.set(complexF64{ptx.D(0), ptx.D(0)})
			}
			k.For(ptx.U(0), segment, ptx.U(1), func(i ptx.U32) {
				slot := i.MAD(ptx.U(32), lane)
				z.set(p[1].fma(z, complexF64{sumRe.Index(slot, 8).LoadF64(0), sumIm.Index(slot, 8).LoadF64(0)}))
			})
			eachTile(func(i ptx.U32, at ptx.Addr, here ptx.Pred, end complexF64) {
				next, re, im := p[0].fma(z, end), z.re.F32(), z.im.F32()
				im2 := at.Add(s.stride())
				k.Guard(here, func() { at.StoreF32(0, re); im2.StoreF32(0, im) })
				if forward {
					k.If(here.And(last.U64().Ne(ptx.L(0))).And(i.Eq(tiles.Sub(ptx.U(1)))), func() {
						all := p[2].fma(z, end)
						s.storeState(s.stateAt(last, s.j), all.re)
						s.storeState(s.stateAt(last, s.states.Add(s.j)), all.im)
					})
				}
				k.Guard(here, func() { z.set(next) })
			})
			if forward && f.Backward {
				k.Barrier()
			}
		}
		if f.Forward {
			pass(fore, true)
		}
		if f.Backward {
			pass(back, false)
		}
	})
}
