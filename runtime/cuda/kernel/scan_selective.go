package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// SelectiveScan runs diagonal systems whose step sizes, inputs and outputs vary with time, as essm.SelectiveScan
// defines it. A thread has up to selectiveStates states of a feature in registers; neighbouring threads have the
// others, and they add up the output together. If features are too few to fill a card, a long sequence is divided
// into tiles, and takes three kernels like Scan. Decays are exp(Δ A) - 1, so that slow ones keep their digits.
type SelectiveScan struct {
	Batch, Length           int
	Features, Heads, Groups int
	States                  int  // per feature
	PerState                bool // A has a number per state of a head, instead of one per head
	State32                 bool // states before the first and after the last step are float32 instead of float64

	X, Delta, B, C Buffer // float32: (Batch, Length, Features), (…, Heads), (…, Groups·States) twice
	A              Buffer // float32: (Heads, States) or (Heads)
	D              Buffer // float32: (Heads); if absent, zero
	Y              Buffer
	// states before the first and after the last step: (Batch, Features, States); if absent: zero, not wanted
	First, Last Buffer
	Scratch     Buffer // of ScratchBytes
}

const (
	selectiveStates = 16      // states in registers of a thread
	selectiveFull   = 1 << 16 // number of threads that fill a card without tiles
	selectiveWide   = 16      // maximum number of steps with float64 states throughout
)

// MaxSelectiveStates is the maximum number of states of a feature.
const MaxSelectiveStates = 32 * 2 * selectiveStates

// lanes returns the number of threads that share a feature, a power of two.
func (s *SelectiveScan) lanes() int {
	g := 1
	for g < 32 && g*selectiveStates < s.States {
		g *= 2
	}
	return g
}

// tile returns the number of steps of a tile.
func (s *SelectiveScan) tile() int {
	t := max(32, 4*s.States)
	if s.Length <= t || s.Batch*s.Features*s.lanes() >= selectiveFull {
		t = max(1, s.Length)
	}
	return t
}

func (s *SelectiveScan) tiles() int { return max(1, ceilDiv(s.Length, s.tile())) }

// ScratchBytes returns the size of the scratch memory.
func (s *SelectiveScan) ScratchBytes() int {
	if s.tiles() == 1 {
		return 0
	}
	return s.sumBytes() + 4*s.Batch*s.tiles()*s.Features*s.States
}

// sumBytes returns the size of the sums of step sizes.
func (s *SelectiveScan) sumBytes() int { return 8 * s.Batch * s.tiles() * s.Features }

// Calls returns the launches.
func (s *SelectiveScan) Calls() []Call {
	if s.Batch*s.Features == 0 || s.Length == 0 && s.Last == 0 {
		return nil
	}
	if s.States > MaxSelectiveStates {
		panic(fmt.Sprintf("kernel: a selective scan of %d states", s.States))
	}
	y, z := gridBatch(s.Batch)
	grid := func(threads int) driver.Dim { return driver.Dim{X: uint32(ceilDiv(threads, scanThreads)), Y: y, Z: z} }
	f := selectiveForm{states: s.States, lanes: s.lanes(), perState: s.PerState, direct: s.D != 0, state32: s.State32}
	args := []Arg{U32(s.Batch), U32(s.Length), U32(s.Features), U32(s.Heads), U32(s.Groups), U32(s.tile()), U32(s.tiles()),
		Ptr(s.X), Ptr(s.Delta), Ptr(s.A), Ptr(s.B), Ptr(s.C), Ptr(s.D), Ptr(s.Y), Ptr(s.First), Ptr(s.Last),
		Ptr(s.Scratch), PtrAt(s.Scratch, s.sumBytes())}
	threads := s.tiles() * s.Features * s.lanes()
	if s.tiles() == 1 {
		f.mode, f.wide = gatedAlone, s.Length <= selectiveWide
		return []Call{NewCall(selectiveTile(f), grid(threads), args...)}
	}
	ends, states := f, f
	ends.mode, states.mode = gatedEnds, gatedStates
	return []Call{NewCall(selectiveTile(ends), grid(threads), args...),
		NewCall(selectiveCarry(f), grid(s.Features*s.States), args...),
		NewCall(selectiveTile(states), grid(threads), args...)}
}

// selectiveForm is everything that the texts of the kernels depend on.
type selectiveForm struct {
	mode             int
	states, lanes    int
	perState, direct bool
	state32, wide    bool
}

// selectiveFrame is the common part of the kernels.
type selectiveFrame struct {
	f                                                   selectiveForm
	k                                                   *ptx.Kernel
	batch, length, features, heads, groups, tile, tiles ptx.U32
	x, delta, a, b, c, d, y, first, last, sums, edges   ptx.Addr
	sample                                              ptx.U32
}

func newSelectiveFrame(f selectiveForm, k *ptx.Kernel) *selectiveFrame {
	return &selectiveFrame{f: f, k: k, batch: k.U32Param("batch"), length: k.U32Param("length"),
		features: k.U32Param("features"), heads: k.U32Param("heads"), groups: k.U32Param("groups"), tile: k.U32Param("tile"),
		tiles: k.U32Param("tiles"), x: k.PtrParam("x"), delta: k.PtrParam("delta"), a: k.PtrParam("a"), b: k.PtrParam("b"),
		c: k.PtrParam("c"), d: k.PtrParam("d"), y: k.PtrParam("y"), first: k.PtrParam("first"), last: k.PtrParam("last"),
		sums: k.PtrParam("sums"), edges: k.PtrParam("edges"), sample: k.BlockZ().MAD(k.GridY(), k.BlockY())}
}

// sumAt returns the address of the sum of step sizes of a tile; edgeAt, of a state at its edge.
func (s *selectiveFrame) sumAt(tile, e ptx.U32) ptx.Addr {
	return s.sums.Index64(s.sample.MulWide(s.tiles).Add(tile.Wide()).MAD(s.features.Wide(), e.Wide()), 8)
}

func (s *selectiveFrame) edgeAt(tile, e, state ptx.U32) ptx.Addr {
	row := s.sample.MulWide(s.tiles).Add(tile.Wide()).MAD(s.features.Wide(), e.Wide())
	return s.edges.Index64(row.MAD(ptx.L(uint64(s.f.states)), state.Wide()), 4)
}

// stateAt returns the address of a state before the first or after the last step.
func (s *selectiveFrame) stateAt(x ptx.Addr, e, state ptx.U32) ptx.Addr {
	size := 8
	if s.f.state32 {
		size = 4
	}
	row := s.sample.MulWide(s.features).Add(e.Wide())
	return x.Index64(row.MAD(ptx.L(uint64(s.f.states)), state.Wide()), size)
}

func (s *selectiveFrame) loadState(a ptx.Addr) ptx.F64 {
	if s.f.state32 {
		return a.LoadF32(0).F64()
	}
	return a.LoadF64(0)
}

func (s *selectiveFrame) storeState(a ptx.Addr, x ptx.F64) {
	if s.f.state32 {
		a.StoreF32(0, x.F32())
	} else {
		a.StoreF64(0, x)
	}
}

// rateAt returns the address of A for a state of a head.
func (s *selectiveFrame) rateAt(head, state ptx.U32) ptx.Addr {
	if !s.f.perState {
		return s.a.Index(head, 4)
	}
	return s.a.Index64(head.MulWide(ptx.U(s.f.states)).Add(state.Wide()), 4)
}

// selectiveTile returns the kernel that computes the states over a tile, from zero (gatedEnds), or with the outputs.
func selectiveTile(f selectiveForm) *Code {
	name := [...]string{"selective_scan_ends", "selective_scan", "selective_scan_alone"}[f.mode]
	return New(name, scanThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // otherwise the compiler spills a register to fit one more block
		s := newSelectiveFrame(f, k)
		q := k.BlockX().MAD(ptx.U(scanThreads), k.ThreadX())
		part, feature := q.And(ptx.U(f.lanes-1)), q.Shr(ptx.U(bitsOf(f.lanes)))
		tile := feature.Div(s.features)
		live := tile.Lt(s.tiles).And(s.sample.Lt(s.batch))
		e := feature.Sub(tile.Mul(s.features))
		// Threads without work compute the first tile of the first sample, because all threads of a warp must take
		// part in its shuffles.
		tile, s.sample = live.SelectU32(tile, ptx.U(0)), live.SelectU32(s.sample, ptx.U(0))
		head := e.Div(s.features.Div(s.heads))
		group := head.Div(s.heads.Div(s.groups))
		per := ceilDiv(f.states, f.lanes)
		firstState := part.Mul(ptx.U(per))
		mine := make([]ptx.Pred, per) // whether the states exist
		state := make([]ptx.U32, per)
		for i := range mine {
			state[i] = firstState.Add(ptx.U(i))
			mine[i] = state[i].Lt(ptx.U(f.states))
		}
		all := f.states%f.lanes == 0

		rate := make([]ptx.F32, per)
		h := make([]ptx.F32, per)
		wide := make([]ptx.F64, per)
		for i := range per {
			if i == 0 || f.perState {
				rate[i] = k.VarF32(ptx.F(0))
				at := s.rateAt(head, state[i])
				k.Guard(mine[i], func() { rate[i].Set(at.ConstF32(0)) })
			} else {
				rate[i] = rate[0]
			}
			if f.wide {
				wide[i] = k.VarF64(ptx.D(0))
			} else {
				h[i] = k.VarF32(ptx.F(0))
			}
		}
		if !f.perState && !all { // every thread needs the rate of a head, even one without states
			rate[0].Set(s.rateAt(head, state[0]).ConstF32(0))
		}
		switch f.mode {
		case gatedStates:
			for i := range per {
				at := s.edgeAt(tile, e, state[i])
				k.Guard(mine[i].And(live), func() { h[i].Set(at.LoadF32(0)) })
			}
		case gatedAlone:
			k.If(s.first.U64().Ne(ptx.L(0)).And(live), func() {
				for i := range per {
					k.If(mine[i], func() {
						x := s.loadState(s.stateAt(s.first, e, state[i]))
						if f.wide {
							wide[i].Set(x)
						} else {
							h[i].Set(x.F32())
						}
					})
				}
			})
		}
		var direct ptx.F32
		if f.direct {
			direct = s.d.Index(head, 4).ConstF32(0)
		}

		begin := tile.Mul(s.tile)
		sum := k.VarF64(ptx.D(0))
		shared := s.groups.Mul(ptx.U(f.states))
		offset := group.Mul(ptx.U(f.states)).Add(firstState)
		vectors := f.states%4 == 0 && per%4 == 0
		row0 := s.sample.MulWide(s.length)
		// read returns the thread's features of a step of b or c
		read := func(v ptx.Addr, row ptx.U64) []ptx.F32 {
			at := v.Index64(row.MAD(shared.Wide(), offset.Wide()), 4)
			var out []ptx.F32
			if vectors {
				for i := 0; i < per; i += 4 {
					out = append(out, at.ConstF32s(4*i, 4)...)
				}
				return out
			}
			for i := range per {
				x := k.VarF32(ptx.F(0))
				k.Guard(mine[i], func() { x.Set(at.ConstF32(4 * i)) })
				out = append(out, x)
			}
			return out
		}
		step := func(t ptx.U32) {
			here := t.Lt(s.tile).And(begin.Add(t).Lt(s.length))
			row := row0.Add(begin.Add(t).Min(s.length.Sub(ptx.U(1))).Wide())
			size := here.SelectF32(s.delta.Index64(row.MAD(s.heads.Wide(), head.Wide()), 4).ConstF32(0), ptx.F(0))
			x := s.x.Index64(row.MAD(s.features.Wide(), e.Wide()), 4).ConstF32(0)
			give := read(s.b, row)
			v := here.SelectF32(size.Mul(x), ptx.F(0))
			if f.mode == gatedEnds {
				sum.Set(sum.Add(size.F64()))
			}
			var decay ptx.F32
			for i := range per {
				if i == 0 || f.perState {
					decay = expm1F32(size.Mul(rate[i]))
				}
				if f.wide {
					d := decay.F64()
					wide[i].Set(wide[i].Add(d.FMA(wide[i], v.Mul(give[i]).F64())))
				} else {
					h[i].Set(h[i].Add(decay.FMA(h[i], v.Mul(give[i]))))
				}
			}
			if f.mode == gatedEnds {
				return
			}
			take := read(s.c, row)
			y := ptx.F(0)
			var y64 ptx.F64
			for i := range per {
				switch {
				case f.wide && i == 0:
					y64 = take[0].F64().Mul(wide[0])
				case f.wide:
					y64 = take[i].F64().FMA(wide[i], y64)
				case i == 0:
					y = take[0].Mul(h[0])
				default:
					y = take[i].FMA(h[i], y)
				}
			}
			if f.wide {
				y = y64.F32()
			}
			for by := f.lanes / 2; by > 0; by /= 2 {
				y = y.Add(y.ShuffleXor(ptx.U(by)))
			}
			if f.direct {
				y = direct.FMA(x, y)
			}
			to := s.y.Index64(row.MAD(s.features.Wide(), e.Wide()), 4)
			k.Guard(here.And(live).And(part.Eq(ptx.U(0))), func() { to.StoreF32(0, y) })
		}
		together := max(1, 32/per)
		k.For(ptx.U(0), s.tile.Min(s.length), ptx.U(together), func(t ptx.U32) {
			for i := range together {
				step(t.Add(ptx.U(i)))
			}
		})
		switch f.mode {
		case gatedEnds:
			at := s.sumAt(tile, e)
			k.Guard(live.And(part.Eq(ptx.U(0))), func() { at.StoreF64(0, sum) })
			for i := range per {
				at := s.edgeAt(tile, e, state[i])
				k.Guard(live.And(mine[i]), func() { at.StoreF32(0, h[i]) })
			}
		case gatedAlone:
			k.If(s.last.U64().Ne(ptx.L(0)).And(live), func() {
				for i := range per {
					k.If(mine[i], func() {
						if !f.wide {
							wide[i] = h[i].F64()
						}
						s.storeState(s.stateAt(s.last, e, state[i]), wide[i])
					})
				}
			})
		}
	})
}

// selectiveCarry returns the kernel that turns the states that tiles reach from zero into those before the tiles,
// one state of a feature per thread.
func selectiveCarry(f selectiveForm) *Code {
	f.lanes, f.direct, f.wide, f.mode = 1, false, false, 0
	return New("selective_scan_carry", scanThreads, func(k *ptx.Kernel) {
		s := newSelectiveFrame(f, k)
		q := k.BlockX().MAD(ptx.U(scanThreads), k.ThreadX())
		e := q.Div(ptx.U(f.states))
		state := q.Sub(e.Mul(ptx.U(f.states)))
		k.If(e.Ge(s.features).Or(s.sample.Ge(s.batch)), k.Return)
		head := e.Div(s.features.Div(s.heads))
		rate := s.rateAt(head, state).ConstF32(0).F64()
		z := k.VarF64(ptx.D(0))
		k.If(s.first.U64().Ne(ptx.L(0)), func() { z.Set(s.loadState(s.stateAt(s.first, e, state))) })
		const together = 4
		k.For(ptx.U(0), s.tiles, ptx.U(together), func(i ptx.U32) {
			var at [together]ptx.Addr
			var decay, end [together]ptx.F64
			var here [together]ptx.Pred
			for n := range at {
				t := i.Add(ptx.U(n)).Min(s.tiles.Sub(ptx.U(1)))
				here[n] = i.Add(ptx.U(n)).Lt(s.tiles)
				at[n] = s.edgeAt(t, e, state)
				end[n] = at[n].LoadF32(0).F64()
				decay[n] = expm1F32(rate.Mul(s.sumAt(t, e).LoadF64(0)).F32()).F64()
			}
			for n := range at {
				next, x := z.Add(decay[n].FMA(z, end[n])), z.F32()
				k.Guard(here[n], func() { at[n].StoreF32(0, x); z.Set(next) })
			}
		})
		k.If(s.last.U64().Ne(ptx.L(0)), func() { s.storeState(s.stateAt(s.last, e, state), z) })
	})
}

// bitsOf returns the binary logarithm of a power of two.
func bitsOf(n int) int {
	b := 0
	for 1<<b < n {
		b++
	}
	return b
}
