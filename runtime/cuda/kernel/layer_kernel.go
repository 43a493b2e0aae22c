package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// layerFrame is what the kernels of a layer have in common. A thread is lane 4·g + t of its warp.
type layerFrame struct {
	f                    LayerForm
	k                    *ptx.Kernel
	places               layerPlaces
	share, rows          int // steps of a thread, steps of a tile
	batch, length, tiles ptx.U32
	u, table, fore, back ptx.Addr
	group, span, root    ptx.U32 // tiles of a group, groups of a span, and spanRoot of these
	powers               ptx.Addr
	tile, sample, begin  ptx.U32
	lane, warp, g, t     ptx.U32
	shared               ptx.Shared // (rows, width): u, then results of stages
}

// newLayerFrame starts a kernel whose tiles have the given number of rows, with extra bytes of shared memory.
func newLayerFrame(f LayerForm, k *ptx.Kernel, rows, extra int) *layerFrame {
	p, _ := f.layout(nil)
	l := &layerFrame{f: f, k: k, places: p, share: rows / 8, rows: rows, batch: k.U32Param("batch"),
		length: k.U32Param("length"), tiles: k.U32Param("tiles"), u: k.PtrParam("u"), table: k.PtrParam("table"),
		fore: k.PtrParam("fore"), back: k.PtrParam("back"), tile: k.BlockX(), sample: k.BlockZ().MAD(k.GridY(), k.BlockY())}
	k.If(l.sample.Ge(l.batch), k.Return)
	l.begin = l.tile.Mul(ptx.U(l.rows))
	l.lane, l.warp = k.ThreadX().And(ptx.U(31)), k.ThreadX().Shr(ptx.U(5))
	l.g, l.t = l.lane.Shr(ptx.U(2)), l.lane.And(ptx.U(3))
	l.shared = k.DynamicShared(4*l.rows*f.width() + extra)
	return l
}

// split adds the parameters of groups and spans.
func (l *layerFrame) split() {
	l.group, l.span, l.root = l.k.U32Param("group"), l.k.U32Param("span"), l.k.U32Param("root")
	l.powers = l.k.PtrParam("powers")
}

// Rows of shared memory are in units of 4 numbers, and row r has unit i at position i xor swizzle(r). This avoids
// bank conflicts both for the operands of products and for the results of threads.

func swizzle(r ptx.U32) ptx.U32 {
	return r.And(ptx.U(3)).Shl(ptx.U(1)).Or(r.Shr(ptx.U(2)).And(ptx.U(1)))
}

// step returns the sequence's step in row 16i + 8·half + g.
func (l *layerFrame) step(i, half int) ptx.U32 {
	return l.g.MAD(ptx.U(l.share), l.begin).Add(ptx.U(2*i + half))
}

// load starts reading u into shared memory, with 0 beyond the sequence and the features.
func (l *layerFrame) load() {
	k, f := l.k, &l.f
	units, tiles := f.width()/4, l.rows/16
	s := swizzle(l.warp) // rows of a warp are equal modulo 8
	for q := range l.rows / layerWarps {
		// row = warp + 8q = 16i + 8·half + g with g = warp
		time := l.begin.Add(l.warp.Mul(ptx.U(2 * tiles))).Add(ptx.U(q))
		row := l.sample.MulWide(l.length).Add(time.Min(l.length.Sub(ptx.U(1))).Wide())
		from := l.u.Index64(row.MAD(ptx.L(uint64(f.Features)), ptx.L(0)), 4)
		to := l.shared.Index(l.warp.Add(ptx.U(layerWarps*q)), 4*f.width())
		for c := 0; c < units; c += 32 {
			unit := l.lane.Add(ptx.U(c))
			copyUnit := func() {
				there := time.Lt(l.length).And(unit.Lt(ptx.U(f.Features / 4)))
				at := from.Index(unit.Min(ptx.U(f.Features/4-1)), 16)
				to.Index(unit.Xor(s), 16).CopyAsyncPart(at, 16, there.SelectU32(ptx.U(16), ptx.U(0)))
			}
			if c+32 <= units {
				copyUnit()
			} else {
				k.If(unit.Lt(ptx.U(units)), copyUnit)
			}
		}
	}
	k.CommitCopies()
}

// loaded waits for the reads that load has started.
func (l *layerFrame) loaded() {
	l.k.WaitCopies(0)
	l.k.Barrier()
}

// products returns accumulators for a tile of steps and n tiles of columns.
func (l *layerFrame) products(n int) [][][4]ptx.F32 {
	acc := make([][][4]ptx.F32, l.rows/16)
	for i := range acc {
		for range n {
			acc[i] = append(acc[i], zeroTile(l.k))
		}
	}
	return acc
}

// multiply adds a product to acc: of rows of width numbers in shared memory, blocks first to end of columns, with
// the blocks of a matrix from weights on. There must be at least one block.
func (l *layerFrame) multiply(acc [][][4]ptx.F32, from ptx.Shared, width int, first, end ptx.U32, weights ptx.Addr, p Precision) {
	k, n := l.k, len(acc[0])
	row := from.Index(l.lane.And(ptx.U(15)), 4*width)
	s, upper := swizzle(l.lane), l.lane.Shr(ptx.U(4))
	w := k.VarAddr(weights.Index(l.lane, 16)) // for a pair of tiles
	last := weights.Index(l.lane, 8).Add(ptx.L(uint64(4 * 128 * (n / 2))))
	if n%2 == 1 {
		last = k.VarAddr(last)
	}
	// A thread reads the numbers of all tiles one block ahead; with many tiles half a block ahead, as registers are
	// limited.
	parts := []int{0, n}
	if n > 8 {
		parts = []int{0, n / 4 * 2, n}
	}
	next := make([]ptx.F32, 2*(n-parts[len(parts)-2]))
	for i := range next {
		next[i] = k.VarF32(ptx.F(0))
	}
	read := func(part int) {
		from, to := parts[part], parts[part+1]
		for i := from / 2; i < to/2; i++ {
			for j, x := range w.ConstF32s(512*i, 4) {
				next[4*i-2*from+j].Set(x)
			}
		}
		if to%2 == 1 {
			for j, x := range last.ConstF32s(0, 2) {
				next[2*(to-1-from)+j].Set(x)
			}
		}
	}
	read(0)
	k.For(first, end, ptx.U(1), func(q ptx.U32) {
		at := row.Index(q.Shl(ptx.U(1)).Add(upper).Xor(s), 16)
		for part := range len(parts) - 1 {
			from, to := parts[part], parts[part+1]
			var b []ptx.F32
			for _, x := range next[:2*(to-from)] {
				b = append(b, k.VarF32(x))
			}
			if part == len(parts)-2 {
				w.Set(w.Add(ptx.L(uint64(256 * n))))
				if n%2 == 1 {
					last.Set(last.Add(ptx.L(uint64(256 * n))))
				}
			}
			read((part + 1) % (len(parts) - 1))
			for c := from; c < to; c += tilesTogether {
				l.multiplyTiles(acc, at, width, c, b[2*(c-from):2*(min(c+tilesTogether, to)-from)], p)
			}
		}
	})
}

// multiplyTiles adds products with tiles of columns from c on to acc. b has the tiles' numbers, at the address of
// the operands.
func (l *layerFrame) multiplyTiles(acc [][][4]ptx.F32, at ptx.Shared, width, c int, b []ptx.F32, p Precision) {
	var parts []tf32Parts
	for j := 0; j < len(b); j += 2 {
		parts = append(parts, p.parts(b[j], b[j+1]))
	}
	for i := range acc {
		var x []ptx.F32
		for _, v := range at.Add(ptx.U(64*width*i)).LoadMatrix(4, false) {
			x = append(x, v.Float())
		}
		multiply(l.k, acc[i][c:c+len(parts)], p.parts(x...), parts)
	}
}

// place returns the address of the thread's two numbers in row g of tile c of columns. Those of row 16i + 8·half +
// g are rowBytes(i, half, width) further on.
func (l *layerFrame) place(to ptx.Shared, width int, c ptx.U32) ptx.Shared {
	unit := c.Shl(ptx.U(1)).Add(l.t.Shr(ptx.U(1))).Xor(swizzle(l.g))
	return to.Index(l.g, 4*width).Index(unit, 16).Index(l.t.And(ptx.U(1)), 8)
}

func rowBytes(i, half, width int) int { return 4 * width * (16*i + 8*half) }

// write writes the results of a product to shared memory, from tile first of columns on.
func (l *layerFrame) write(acc [][][4]ptx.F32, to ptx.Shared, width int, first ptx.U32) {
	for c := range acc[0] {
		at := l.place(to, width, first.Add(ptx.U(c)))
		for i := range acc {
			for half := range 2 {
				at.StoreF32s(rowBytes(i, half, width), acc[i][c][2*half], acc[i][c][2*half+1])
			}
		}
	}
}

// read returns the inverse of write.
func (l *layerFrame) read(n int, from ptx.Shared, width int, first ptx.U32) [][][4]ptx.F32 {
	out := make([][][4]ptx.F32, l.rows/16)
	for i := range out {
		out[i] = make([][4]ptx.F32, n)
	}
	for c := range n {
		at := l.place(from, width, first.Add(ptx.U(c)))
		for i := range out {
			for half := range 2 {
				x := at.LoadF32s(rowBytes(i, half, width), 2)
				out[i][c][2*half], out[i][c][2*half+1] = x[0], x[1]
			}
		}
	}
	return out
}

// inputs computes B u for the warp's 16 states of a chunk.
func (l *layerFrame) inputs(chunk ptx.U32) [][][4]ptx.F32 {
	acc := l.products(2)
	at := l.table.Index(chunk.MAD(ptx.U(layerWarps), l.warp), 12).Add(ptx.L(uint64(4 * l.places.inRange)))
	l.multiply(acc, l.shared, l.f.width(), at.ConstU32(0), at.ConstU32(4), l.table.Index(at.ConstU32(8), 4), Float32)
	return acc
}

// layerState is one state of a thread: its coefficients, and its weighted inputs over the thread's steps.
type layerState struct {
	coefficients
	jump     [3][2]ptx.F32 // powers of ā over the steps of 1, 2 and 4 threads
	wRe, wIm []ptx.F32
}

// states returns the two states of tile c of the warp's products in the chunk, with the weighted inputs.
func (l *layerFrame) states(acc [][][4]ptx.F32, chunk ptx.U32, c int) (out [2]layerState) {
	j := l.stateIndex(chunk, c, 0)
	at := l.table.Index(j, 4).Add(ptx.L(uint64(4 * l.places.states)))
	var x [layerRows][]ptx.F32
	for r := range x {
		x[r] = at.ConstF32s(4*r*l.f.padded(), 2)
	}
	for p := range out {
		s := &out[p]
		s.aRe, s.aIm, s.eRe, s.eIm, s.bRe, s.bIm = x[0][p], x[1][p], x[2][p], x[3][p], x[4][p], x[5][p]
		for n := range s.jump {
			s.jump[n] = [2]ptx.F32{x[6+2*n][p], x[7+2*n][p]}
		}
		for i := range acc {
			for half := range 2 {
				v := acc[i][c][2*half+p].Add(x[12][p])
				if l.f.Backward { // beyond the sequence u is 0, but the offset is not
					v = l.step(i, half).Lt(l.length).SelectF32(v, ptx.F(0))
				}
				s.wRe, s.wIm = append(s.wRe, s.bRe.Mul(v)), append(s.wIm, s.bIm.Mul(v))
			}
		}
	}
	return out
}

// stateIndex returns the number of state p of tile c of the warp.
func (l *layerFrame) stateIndex(chunk ptx.U32, c, p int) ptx.U32 {
	return chunk.MAD(ptx.U(layerChunk), l.warp.MAD(ptx.U(16), l.t.Shl(ptx.U(1)))).Add(ptx.U(8*c + p))
}

// reached returns the state at the end of the thread's steps, in the direction of the scan. before is the state
// before the tile's first steps; nil means zero.
func (l *layerFrame) reached(s *layerState, forward bool, before *[2]ptx.F32) (re, im ptx.F32) {
	re, im = ptx.F(0), ptx.F(0)
	for n := range s.wRe {
		i := n
		if !forward {
			i = len(s.wRe) - 1 - n
		}
		if n == 0 {
			re, im = s.wRe[i], s.wIm[i]
			continue
		}
		re, im = s.advance(re, im, s.wRe[i], s.wIm[i])
	}
	if before != nil {
		edge := l.edge(forward)
		re = edge.SelectF32(s.jump[0][0].FMA(before[0], s.jump[0][1].Neg().FMA(before[1], re)), re)
		im = edge.SelectF32(s.jump[0][0].FMA(before[1], s.jump[0][1].FMA(before[0], im)), im)
	}
	for n, p := range s.jump {
		by := 1 << n
		r, m := l.shift(re, forward, by), l.shift(im, forward, by)
		there := l.g.Ge(ptx.U(by))
		if !forward {
			there = l.g.Lt(ptx.U(8 - by))
		}
		newRe := p[0].FMA(r, p[1].Neg().FMA(m, re))
		newIm := p[0].FMA(m, p[1].FMA(r, im))
		re, im = there.SelectF32(newRe, re), there.SelectF32(newIm, im)
	}
	return re, im
}

// edge reports whether the thread has the first steps of the tile, in the direction of the scan.
func (l *layerFrame) edge(forward bool) ptx.Pred {
	if forward {
		return l.g.Eq(ptx.U(0))
	}
	return l.g.Eq(ptx.U(7))
}

// shift returns the number of the thread by threads before, in the direction of the scan.
func (l *layerFrame) shift(x ptx.F32, forward bool, by int) ptx.F32 {
	if forward {
		return x.ShuffleUp(ptx.U(4 * by))
	}
	return x.ShuffleDown(ptx.U(4 * by))
}

// endAt returns the address of the real part of state j at the edge of a tile.
func (l *layerFrame) endAt(ends ptx.Addr, tile, j ptx.U32) ptx.Addr {
	row := l.sample.MulWide(l.tiles).Add(tile.Wide()).Shl(ptx.U(1))
	return ends.Index64(row.MAD(ptx.L(uint64(l.f.States)), j.Wide()), 4)
}

// storeEnds writes the real and imaginary parts of the thread's two states of a tile of states at the edge of the
// tile. The threads where lead is true write. Two adjacent states fill sectors of memory, so the number of states
// must be even.
func (l *layerFrame) storeEnds(ends ptx.Addr, lead ptx.Pred, chunk ptx.U32, c int, z [2][2]ptx.F32) {
	n := l.f.States
	for p := range z {
		j := l.stateIndex(chunk, c, p)
		at := l.endAt(ends, l.tile, j)
		here := lead.And(j.Lt(ptx.U(n)))
		if n%2 == 0 {
			l.k.Guard(here, func() {
				at.StoreF32s(0, z[0][0], z[1][0])
				at.StoreF32s(4*n, z[0][1], z[1][1])
			})
			return
		}
		l.k.Guard(here, func() {
			at.StoreF32(0, z[p][0])
			at.StoreF32(4*n, z[p][1])
		})
	}
}
