package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// GatedScan is the recurrence h[t] = f[t] h[t-1] + v[t] of each feature, as essm.GatedScan defines it. Sequences are
// laid out (Batch, Length, Features) in float32, states (Batch, Features). It computes in float64, in the three
// kernels of Scan, with products of factors instead of powers. A sequence of at most one tile takes one kernel.
type GatedScan struct {
	Batch, Length, Features int
	State32                 bool // states before the first and after the last step are float32 instead of float64

	F, V, H     Buffer
	First, Last Buffer // states before the first and after the last step; if absent: zero, not wanted
	Scratch     Buffer // of ScratchBytes
}

func (s *GatedScan) tiles() int { return ceilDiv(s.Length, ScanTile) }

// ScratchBytes returns the size of the scratch memory.
func (s *GatedScan) ScratchBytes() int {
	if s.Length <= ScanTile {
		return 0
	}
	return 16 * s.Batch * s.tiles() * s.Features
}

// Calls returns the launches.
func (s *GatedScan) Calls() []Call {
	if s.Batch*s.Features == 0 || s.Length == 0 && s.Last == 0 {
		return nil
	}
	y, z := gridBatch(s.Batch)
	grid := func(n int) driver.Dim { return driver.Dim{X: uint32(n), Y: y, Z: z} }
	args := []Arg{U32(s.Batch), U32(s.Length), U32(s.Features), U32(max(1, s.tiles())), Ptr(s.F), Ptr(s.V), Ptr(s.H),
		Ptr(s.First), Ptr(s.Last), Ptr(s.Scratch)}
	blocks := ceilDiv(max(1, s.tiles())*s.Features, scanThreads)
	if s.Length <= ScanTile {
		return []Call{NewCall(gatedTile(gatedAlone, s.State32), grid(blocks), args...)}
	}
	return []Call{
		NewCall(gatedTile(gatedEnds, s.State32), grid(blocks), args...),
		NewCall(gatedCarry(s.State32), grid(ceilDiv(s.Features, 32)), args...),
		NewCall(gatedTile(gatedStates, s.State32), grid(blocks), args...),
	}
}

// gatedFrame is the common part of the kernels of a gated scan.
type gatedFrame struct {
	k                              *ptx.Kernel
	batch, length, features, tiles ptx.U32
	f, v, h, first, last, scratch  ptx.Addr
	sample, j                      ptx.U32
	state32                        bool
}

func newGatedFrame(k *ptx.Kernel, state32 bool) *gatedFrame {
	return &gatedFrame{k: k, batch: k.U32Param("batch"), length: k.U32Param("length"), features: k.U32Param("features"),
		tiles: k.U32Param("tiles"), f: k.PtrParam("f"), v: k.PtrParam("v"), h: k.PtrParam("h"), first: k.PtrParam("first"),
		last: k.PtrParam("last"), scratch: k.PtrParam("scratch"), sample: k.BlockZ().MAD(k.GridY(), k.BlockY()),
		state32: state32}
}

// firstState returns the state before the first step.
func (g *gatedFrame) firstState() ptx.F64 {
	h := g.k.VarF64(ptx.D(0))
	g.k.If(g.first.U64().Ne(ptx.L(0)), func() {
		at := g.sample.MulWide(g.features).Add(g.j.Wide())
		if g.state32 {
			h.Set(g.first.Index64(at, 4).LoadF32(0).F64())
		} else {
			h.Set(g.first.Index64(at, 8).LoadF64(0))
		}
	})
	return h
}

// writeLast writes the state after the last step, if it is wanted.
func (g *gatedFrame) writeLast(h ptx.F64) {
	g.k.If(g.last.U64().Ne(ptx.L(0)), func() {
		at := g.sample.MulWide(g.features).Add(g.j.Wide())
		if g.state32 {
			g.last.Index64(at, 4).StoreF32(0, h.F32())
		} else {
			g.last.Index64(at, 8).StoreF64(0, h)
		}
	})
}

// edge returns the address of the product of factors over a tile, and of the state at its end; later of the state
// before it.
func (g *gatedFrame) edge(tile ptx.U32) ptx.Addr {
	row := g.sample.MulWide(g.tiles).Add(tile.Wide())
	return g.scratch.Index64(row.MAD(g.features.Wide(), g.j.Wide()), 16)
}

// The kernels of gatedTile.
const (
	gatedEnds = iota
	gatedStates
	gatedAlone // a sequence of one tile
)

func gatedTile(mode int, state32 bool) *Code {
	name := [...]string{"gated_scan_ends", "gated_scan_states", "gated_scan_steps"}[mode]
	return New(name, scanThreads, func(k *ptx.Kernel) {
		g := newGatedFrame(k, state32)
		q := k.BlockX().MAD(ptx.U(scanThreads), k.ThreadX())
		tile := q.Div(g.features)
		g.j = q.Sub(tile.Mul(g.features))
		k.If(tile.Ge(g.tiles).Or(g.sample.Ge(g.batch)), k.Return)
		begin := tile.Mul(ptx.U(ScanTile))
		end := begin.Add(ptx.U(ScanTile)).Min(g.length)
		h, product := k.VarF64(ptx.D(0)), k.VarF64(ptx.D(1))
		switch mode {
		case gatedStates:
			h.Set(g.edge(tile).LoadF64(0))
		case gatedAlone:
			h.Set(g.firstState())
		}
		at := g.sample.MulWide(g.length).Add(begin.Wide()).MAD(g.features.Wide(), g.j.Wide())
		offset := k.VarU64(at.Shl(ptx.U(2)))
		stride := g.features.MulWide(ptx.U(4))
		const together = 8
		k.For(begin, end, ptx.U(together), func(t ptx.U32) {
			var f, v [together]ptx.F32
			var here [together]ptx.Pred
			var place [together]ptx.U64
			o := ptx.U64(offset)
			for i := range f {
				here[i] = t.Add(ptx.U(i)).Lt(end)
				place[i] = o
				f[i], v[i] = k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))
				from, of := g.f.Add(o), g.v.Add(o)
				k.Guard(here[i], func() { f[i].Set(from.LoadF32(0)); v[i].Set(of.LoadF32(0)) })
				o = o.Add(stride)
			}
			for i := range f {
				factor := f[i].F64()
				next := factor.FMA(h, v[i].F64())
				k.Guard(here[i], func() { h.Set(next) })
				if mode == gatedEnds {
					all := product.Mul(factor)
					k.Guard(here[i], func() { product.Set(all) })
					continue
				}
				to, x := g.h.Add(place[i]), next.F32()
				k.Guard(here[i], func() { to.StoreF32(0, x) })
			}
			offset.Set(o)
		})
		switch mode {
		case gatedEnds:
			g.edge(tile).StoreF64s(0, product, h)
		case gatedAlone:
			g.writeLast(h)
		}
	})
}

// gatedCarry turns the edges of tiles into the states before them, like scanCarry.
func gatedCarry(state32 bool) *Code {
	return New("gated_scan_carry", 32*carrySegments, func(k *ptx.Kernel) {
		g := newGatedFrame(k, state32)
		factors, sums := k.SharedArray(8*32*carrySegments, 8), k.SharedArray(8*32*carrySegments, 8)
		lane, segment := k.ThreadX().And(ptx.U(31)), k.ThreadX().Shr(ptx.U(5))
		g.j = k.BlockX().MAD(ptx.U(32), lane)
		live := g.j.Lt(g.features).And(g.sample.Lt(g.batch))
		per := g.tiles.Add(ptx.U(carrySegments - 1)).Div(ptx.U(carrySegments))
		from := segment.Mul(per).Min(g.tiles)
		to := from.Add(per).Min(g.tiles)
		before, h, product := k.VarF64(ptx.D(0)), k.VarF64(ptx.D(0)), k.VarF64(ptx.D(1))
		k.If(live, func() {
			before.Set(g.firstState())
			k.For(from, to, ptx.U(1), func(i ptx.U32) {
				e := g.edge(i).LoadF64s(0, 2)
				h.Set(e[0].FMA(h, e[1]))
				product.Set(product.Mul(e[0]))
			})
		})
		slot := segment.MAD(ptx.U(32), lane)
		factors.Index(slot, 8).StoreF64(0, product)
		sums.Index(slot, 8).StoreF64(0, h)
		k.Barrier()
		h.Set(before)
		k.For(ptx.U(0), segment, ptx.U(1), func(i ptx.U32) {
			slot := i.MAD(ptx.U(32), lane)
			h.Set(factors.Index(slot, 8).LoadF64(0).FMA(h, sums.Index(slot, 8).LoadF64(0)))
		})
		k.If(live, func() {
			k.For(from, to, ptx.U(1), func(i ptx.U32) {
				at := g.edge(i)
				e := at.LoadF64s(0, 2)
				at.StoreF64(0, h)
				h.Set(e[0].FMA(h, e[1]))
			})
			k.If(to.Eq(g.tiles).And(from.Lt(to)), func() { g.writeLast(h) })
		})
	})
}
