package kernel

import (
	"slices"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// SisoScan runs systems of one input and one output each: z[t] = ā∘z[t-1] + b u[t], y[t] = Re(Σ c∘z[t]) + d
// u[t], with States complex states. A thread has up to sisoStates of them in registers, and adds up outputs with
// neighbouring threads, so states are never written. In a backward scan, z[t] has the inputs after step t, as in
// Scan.
//
// Long sequences are divided into tiles, and take the three kernels of Scan. A matrix of the form z ↦ f∘z - Σ_r
// g_r Re(Σ h_r∘z) with Rank terms (essm.DPLRScan) is not diagonal and has no powers of that form. Its sequences
// run step by step, in float64. So do short sequences, and those with a window of Lags steps, which ignores older
// inputs.
//
// Sequences are laid out (Batch, Length, Inputs) and (Batch, Length, Heads) in float32. States have for each sample
// Heads·States real parts, then as many imaginary parts, then the last Lags inputs, oldest first. Head i reads
// input i mod Inputs.
type SisoScan struct {
	Batch, Length         int
	Inputs, Heads, States int
	Rank                  int
	Lags                  int // of the window; 0 for none
	Backward              bool
	// Add adds the outputs to the existing ones, from the scan in the other direction.
	Add     bool
	State32 bool // states before the first and after the last step are float32 instead of float64

	U, Y        Buffer
	First, Last Buffer // if absent: zero, not wanted
	Tables      Buffer // SisoTables
	Powers      Buffer // ScanPowers of ScanExponents(Tile(), Length); absent if Tiled() is false
	Scratch     Buffer // of ScratchBytes
}

// SisoSystem has the constants of a SisoScan: for each head States numbers.
type SisoSystem struct {
	A    []complex128 // logarithms of ā; nil with F
	F    []complex128 // ā itself
	B, C []complex128
	D    []float64    // per head; nil means zero
	G, H []complex128 // per head Rank times States numbers
	Lags int          // of the window; 0 for none
	// Heads is the number of heads; it is only needed with a window.
	Heads int
}

const (
	sisoStates = 8 // states in registers of a thread
	sisoWide   = 4 // the same in float64
	sisoShort  = ShortScan
)

// ShortScan is the maximum number of steps for which systems of one input and one output run step by step, in
// float64.
const ShortScan = 32

// MaxSisoStates and MaxSisoRank limit the registers of threads.
const (
	MaxSisoStates = 128
	MaxSisoRank   = 4
)

// wide reports whether the scan runs step by step in float64.
func (s *SisoScan) wide() bool { return s.Rank > 0 || s.Lags > 0 || s.Length <= sisoShort }

// StateSize returns the number of elements of a state, per sample.
func (s *SisoScan) StateSize() int { return 2*s.Heads*s.States + s.Lags*s.Inputs }

// lanes returns the number of threads that share a head, a power of two.
func (s *SisoScan) lanes() int {
	per, g := sisoStates, 1
	if s.wide() {
		per = sisoWide
	}
	for g < 32 && g*per < s.States {
		g *= 2
	}
	return g
}

// Tile returns the number of steps of a tile.
func (s *SisoScan) Tile() int { return max(64, 8*s.States) }

// Tiled reports whether the sequence is divided into tiles.
func (s *SisoScan) Tiled() bool {
	return !s.wide() && s.Length > s.Tile() && s.Batch*s.Heads*s.lanes() < selectiveFull
}

func (s *SisoScan) tiles() int {
	if !s.Tiled() {
		return 1
	}
	return ceilDiv(s.Length, s.Tile())
}

// ScratchBytes returns the size of the scratch memory.
func (s *SisoScan) ScratchBytes() int {
	if !s.Tiled() {
		return 0
	}
	return 8 * s.Batch * s.tiles() * s.Heads * s.States
}

// sisoRows is the number of float32 coefficients of a state.
const sisoRows = 8

// SisoTables returns the constants as kernels read them: f, b, c, g, h and, with a window, the weights of inputs
// that leave it, in float64, real parts before imaginary ones; then ā and e as in Scan, b and c in float32, and D.
func SisoTables(s SisoSystem) []byte {
	f := s.F
	if f == nil {
		for _, a := range s.A {
			f = append(f, power(a, 1))
		}
	}
	lists := [][]complex128{f, s.B, s.C, s.G, s.H}
	if s.Lags > 0 {
		lists = append(lists, s.leaving(f))
	}
	var wide []float64
	for _, list := range lists {
		re, im := make([]float64, len(list)), make([]float64, len(list))
		for i, z := range list {
			re[i], im[i] = real(z), imag(z)
		}
		wide = append(append(wide, re...), im...)
	}
	rows := make([][]float32, sisoRows)
	for j := range f {
		e := rest(f[j])
		for r, x := range []float64{real(f[j]), imag(f[j]), real(e), imag(e), real(s.B[j]), imag(s.B[j]), real(s.C[j]), imag(s.C[j])} {
			rows[r] = append(rows[r], float32(x))
		}
	}
	out := float64Bytes(wide)
	for _, r := range rows {
		out = append(out, float32Bytes(r)...)
	}
	for _, d := range s.D {
		out = append(out, float32Bytes([]float32{float32(d)})...)
	}
	return out
}

// leaving returns the weights of the inputs that leave the window: b after Lags steps without inputs.
func (s *SisoSystem) leaving(f []complex128) []complex128 {
	z := slices.Clone(s.B)
	if s.A != nil {
		for j, a := range s.A {
			z[j] *= power(a, float64(s.Lags))
		}
		return z
	}
	n, rank := len(f)/s.Heads, len(s.G)/len(f)
	low := make([]float64, rank)
	for at := 0; at < len(f); at += n {
		for range s.Lags {
			advance(f[at:at+n], s.G[at*rank:(at+n)*rank], s.H[at*rank:(at+n)*rank], z[at:at+n], low)
		}
	}
	return z
}

// Response sets y to the outputs of a head for an input of 1 at the first step, without D.
func (s *SisoSystem) Response(head int, y []float64) {
	n := len(s.B) / s.Heads
	at := head * n
	b, c := s.B[at:at+n], s.C[at:at+n]
	if s.A != nil {
		clear(y)
		for j, a := range s.A[at : at+n] {
			step := power(a, 1)
			var z complex128
			for t := range y {
				if t%responseSteps == 0 { // keeps errors from growing over long responses
					z = b[j] * c[j] * power(a, float64(t))
				}
				y[t] += real(z)
				z *= step
			}
		}
		return
	}
	rank := len(s.G) / len(s.B)
	g, h, z := s.G[at*rank:(at+n)*rank], s.H[at*rank:(at+n)*rank], slices.Clone(b)
	low := make([]float64, rank)
	for t := range y {
		if t > 0 {
			advance(s.F[at:at+n], g, h, z, low)
		}
		for j, x := range z {
			y[t] += real(c[j])*real(x) - imag(c[j])*imag(x)
		}
	}
}

// responseSteps is the number of steps after which a power is recomputed.
const responseSteps = 64

// advance computes a step of a head's states without an input.
func advance(f, g, h, z []complex128, low []float64) {
	n := len(f)
	for r := range low {
		low[r] = 0
		for j, x := range z {
			w := h[r*n+j]
			low[r] += real(w)*real(x) - imag(w)*imag(x)
		}
	}
	for j := range z {
		z[j] *= f[j]
		for r, x := range low {
			z[j] -= complex(real(g[r*n+j])*x, imag(g[r*n+j])*x)
		}
	}
}

// Calls returns the launches. direct: the system has a D.
func (s *SisoScan) Calls(direct bool) []Call {
	all := s.Heads * s.States
	if s.Batch*all == 0 || s.Length == 0 && s.Last == 0 {
		return nil
	}
	y, z := gridBatch(s.Batch)
	grid := func(threads int) driver.Dim { return driver.Dim{X: uint32(ceilDiv(threads, scanThreads)), Y: y, Z: z} }
	tile := max(1, s.Length)
	if s.Tiled() {
		tile = s.Tile()
	}
	f := sisoForm{states: s.States, lanes: s.lanes(), rank: s.Rank, backward: s.Backward, add: s.Add, direct: direct,
		state32: s.State32, window: s.Lags > 0}
	place := 16 * all * (3 + 2*s.Rank) // offset of the float32 numbers
	if f.window {
		place += 16 * all
	}
	args := []Arg{U32(s.Batch), U32(s.Length), U32(s.Inputs), U32(s.Heads), U32(s.Lags), U32(tile), U32(s.tiles()), Ptr(s.U),
		Ptr(s.Tables), PtrAt(s.Tables, place), PtrAt(s.Tables, place+4*sisoRows*all), Ptr(s.Y), Ptr(s.First), Ptr(s.Last), Ptr(s.Scratch)}
	threads := s.tiles() * s.Heads * s.lanes()
	if s.wide() {
		calls := []Call{NewCall(sisoSteps(f), grid(threads), args...)}
		if s.Last != 0 && s.Lags > 0 {
			calls = append(calls, pastCall(s.Batch, s.Length, s.Inputs, s.Lags, 2*all, s.State32, s.U, s.First, s.Last))
		}
		return calls
	}
	if !s.Tiled() {
		f.mode = gatedAlone
		return []Call{NewCall(sisoTile(f), grid(threads), args...)}
	}
	ends, states := f, f
	ends.mode, states.mode = gatedEnds, gatedStates
	carry := ScanForm{Forward: !s.Backward, Backward: s.Backward, State32: s.State32, Tile: tile}
	return []Call{NewCall(sisoTile(ends), grid(threads), args...),
		NewCall(scanCarry(carry), driver.Dim{X: uint32(ceilDiv(all, 32)), Y: y, Z: z}, U32(s.Batch), U32(s.Length), U32(all),
			U32(0), Ptr(s.Powers), Ptr(s.First), Ptr(s.Last), U32(2*all), U32(s.tiles()), Ptr(s.Scratch), Ptr(s.Scratch)),
		NewCall(sisoTile(states), grid(threads), args...)}
}

// sisoForm is everything that the texts of the kernels depend on.
type sisoForm struct {
	mode                  int
	states, lanes, rank   int
	backward, add, direct bool
	state32, window       bool
}

// sisoFrame is the common part of the kernels.
type sisoFrame struct {
	f                                       sisoForm
	k                                       *ptx.Kernel
	batch, length, inputs, heads, lags      ptx.U32
	tile, tiles                             ptx.U32
	u, wide, table, d, y, first, last, ends ptx.Addr
	sample, head, input, at, part           ptx.U32 // at: of the tile
	live                                    ptx.Pred
	per                                     int       // states per thread
	j                                       []ptx.U32 // their indices among all states of the system
	mine                                    []ptx.Pred
}

func newSisoFrame(f sisoForm, k *ptx.Kernel) *sisoFrame {
	s := &sisoFrame{f: f, k: k, batch: k.U32Param("batch"), length: k.U32Param("length"), inputs: k.U32Param("inputs"),
		heads: k.U32Param("heads"), lags: k.U32Param("lags"), tile: k.U32Param("tile"), tiles: k.U32Param("tiles"), u: k.PtrParam("u"),
		wide: k.PtrParam("wide"), table: k.PtrParam("table"), d: k.PtrParam("d"), y: k.PtrParam("y"),
		first: k.PtrParam("first"), last: k.PtrParam("last"), ends: k.PtrParam("ends"),
		sample: k.BlockZ().MAD(k.GridY(), k.BlockY())}
	q := k.BlockX().MAD(ptx.U(scanThreads), k.ThreadX())
	s.part = q.And(ptx.U(f.lanes - 1))
	feature := q.Shr(ptx.U(bitsOf(f.lanes)))
	tile := feature.Div(s.heads)
	s.live = tile.Lt(s.tiles).And(s.sample.Lt(s.batch))
	s.head = feature.Sub(tile.Mul(s.heads))
	// Threads without work compute the first tile of the first sample, because all threads of a warp must take part
	// in its shuffles.
	s.at, s.sample = s.live.SelectU32(tile, ptx.U(0)), s.live.SelectU32(s.sample, ptx.U(0))
	s.input = s.head.Rem(s.inputs)
	s.per = ceilDiv(f.states, f.lanes)
	for i := range s.per {
		n := s.part.MAD(ptx.U(s.per), ptx.U(i))
		s.mine = append(s.mine, n.Lt(ptx.U(f.states)))
		s.j = append(s.j, s.head.MAD(ptx.U(f.states), n))
	}
	return s
}

// all returns the number of states of the system.
func (s *sisoFrame) all() ptx.U32 { return s.heads.Mul(ptx.U(s.f.states)) }

// row returns the index of a step in sequences.
func (s *sisoFrame) row(step ptx.U32) ptx.U64 { return s.sample.MulWide(s.length).Add(step.Wide()) }

// numberAt returns the address of a number of the sample's state.
func (s *sisoFrame) numberAt(x ptx.Addr, n ptx.U64) ptx.Addr {
	size := 8
	if s.f.state32 {
		size = 4
	}
	all := s.all().Wide().Shl(ptx.U(1))
	if s.f.window {
		all = s.lags.MulWide(s.inputs).Add(all)
	}
	return x.Index64(s.sample.Wide().MAD(all, n), size)
}

// stateAt returns the address of a state before the first or after the last step; its imaginary part is all()
// numbers further on.
func (s *sisoFrame) stateAt(x ptx.Addr, i int, im bool) ptx.Addr {
	n := s.j[i].Wide()
	if im {
		n = n.Add(s.all().Wide())
	}
	return s.numberAt(x, n)
}

func (s *sisoFrame) loadNumber(a ptx.Addr) ptx.F64 {
	if s.f.state32 {
		return a.LoadF32(0).F64()
	}
	return a.LoadF64(0)
}

func (s *sisoFrame) loadState(i int, im bool) ptx.F64 { return s.loadNumber(s.stateAt(s.first, i, im)) }

// leaving reads the input that leaves the window at a step, or 0 if there is none.
func (s *sisoFrame) leaving(step ptx.U32) ptx.F64 {
	k := s.k
	x := k.VarF64(ptx.D(0))
	if s.f.backward { // step + lags may exceed 32 bits
		k.If(step.Wide().Add(s.lags.Wide()).Lt(s.length.Wide()), func() { x.Set(s.read(step.Add(s.lags)).F64()) })
		return x
	}
	k.IfElse(step.Ge(s.lags), func() { x.Set(s.read(step.Sub(s.lags)).F64()) }, func() {
		k.If(s.first.U64().Ne(ptx.L(0)), func() {
			n := step.MulWide(s.inputs).Add(s.input.Wide())
			x.Set(s.loadNumber(s.numberAt(s.first, n.Add(s.all().Wide().Shl(ptx.U(1))))))
		})
	})
	return x
}

func (s *sisoFrame) storeState(i int, im bool, x ptx.F64) {
	a := s.stateAt(s.last, i, im)
	if s.f.state32 {
		a.StoreF32(0, x.F32())
	} else {
		a.StoreF64(0, x)
	}
}

// steps calls body for the steps of the thread's tile in order. here reports whether a step is in the sequence; step
// is always a valid index.
func (s *sisoFrame) steps(together int, body func(step ptx.U32, here ptx.Pred)) {
	k := s.k
	begin := s.at.Mul(s.tile)
	count := s.tile.Min(s.length)
	k.For(ptx.U(0), count, ptx.U(together), func(i ptx.U32) {
		for n := range together {
			t := i.Add(ptx.U(n))
			here := t.Lt(count)
			if s.f.backward {
				t = count.Sub(ptx.U(1)).Sub(t.Min(count.Sub(ptx.U(1))))
			}
			step := begin.Add(t)
			here = here.And(step.Lt(s.length))
			body(step.Min(s.length.Sub(ptx.U(1))), here)
		}
	})
}

// total adds up a number over the threads of a head.
func total[T interface{ Add(T) T }](lanes int, x T, shuffle func(x T, by ptx.U32) T) T {
	for by := lanes / 2; by > 0; by /= 2 {
		x = x.Add(shuffle(x, ptx.U(by)))
	}
	return x
}

// write stores or adds the output of a step, in the first thread of a head.
func (s *sisoFrame) write(step ptx.U32, here ptx.Pred, y ptx.F32) {
	k := s.k
	to := s.y.Index64(s.row(step).MAD(s.heads.Wide(), s.head.Wide()), 4)
	p := here.And(s.live).And(s.part.Eq(ptx.U(0)))
	if s.f.add {
		old := k.VarF32(ptx.F(0))
		k.Guard(p, func() { old.Set(to.LoadF32(0)) })
		y = y.Add(old)
	}
	k.Guard(p, func() { to.StoreF32(0, y) })
}

// read reads the input of a step.
func (s *sisoFrame) read(step ptx.U32) ptx.F32 {
	return s.u.Index64(s.row(step).MAD(s.inputs.Wide(), s.input.Wide()), 4).ConstF32(0)
}

// sisoTile returns the kernel that computes tiles in float32: the states that they reach from zero (gatedEnds), or
// the outputs.
func sisoTile(f sisoForm) *Code {
	name := [...]string{"siso_scan_ends", "siso_scan", "siso_scan_alone"}[f.mode]
	return New(name, scanThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // otherwise the compiler spills a register to fit one more block
		s := newSisoFrame(f, k)
		type state struct {
			coefficients
			cRe, cIm, zRe, zIm ptx.F32
		}
		states := make([]state, s.per)
		stride := s.all().MulWide(ptx.U(4))
		for i := range states {
			var x [sisoRows]ptx.F32
			at := s.table.Index(s.j[i], 4)
			for r := range x {
				x[r] = k.VarF32(ptx.F(0))
				k.Guard(s.mine[i], func() { x[r].Set(at.ConstF32(0)) })
				at = at.Add(stride)
			}
			states[i] = state{coefficients{aRe: x[0], aIm: x[1], eRe: x[2], eIm: x[3], bRe: x[4], bIm: x[5]}, x[6], x[7],
				k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
		}
		edge := func(i int) ptx.Addr {
			row := s.sample.MulWide(s.tiles).Add(s.at.Wide()).Shl(ptx.U(1))
			return s.ends.Index64(row.MAD(s.all().Wide(), s.j[i].Wide()), 4)
		}
		for i := range states {
			z := &states[i]
			switch f.mode {
			case gatedStates:
				at := edge(i)
				im := at.Add(stride)
				k.Guard(s.mine[i].And(s.live), func() { z.zRe.Set(at.LoadF32(0)); z.zIm.Set(im.LoadF32(0)) })
			case gatedAlone:
				k.If(s.first.U64().Ne(ptx.L(0)).And(s.mine[i]).And(s.live), func() {
					z.zRe.Set(s.loadState(i, false).F32())
					z.zIm.Set(s.loadState(i, true).F32())
				})
			}
		}
		direct := ptx.F(0)
		if f.direct {
			direct = s.d.Index(s.head, 4).ConstF32(0)
		}
		s.steps(4, func(step ptx.U32, here ptx.Pred) {
			u := s.read(step)
			y := ptx.F(0)
			out := func() {
				for i := range states {
					z := &states[i]
					if i == 0 {
						y = z.cRe.Mul(z.zRe)
					} else {
						y = z.cRe.FMA(z.zRe, y)
					}
					y = z.cIm.Neg().FMA(z.zIm, y)
				}
				y = total(f.lanes, y, ptx.F32.ShuffleXor)
				if f.direct {
					y = direct.FMA(u, y)
				}
				s.write(step, here, y)
			}
			if f.backward && f.mode != gatedEnds {
				out()
			}
			for i := range states {
				z := &states[i]
				re, im := z.advance(z.zRe, z.zIm, z.bRe.Mul(u), z.bIm.Mul(u))
				k.Guard(here, func() { z.zRe.Set(re); z.zIm.Set(im) })
			}
			if !f.backward && f.mode != gatedEnds {
				out()
			}
		})
		for i := range states {
			z := &states[i]
			switch f.mode {
			case gatedEnds:
				at := edge(i)
				im := at.Add(stride)
				k.Guard(s.live.And(s.mine[i]), func() { at.StoreF32(0, z.zRe); im.StoreF32(0, z.zIm) })
			case gatedAlone:
				k.If(s.last.U64().Ne(ptx.L(0)).And(s.live).And(s.mine[i]), func() {
					s.storeState(i, false, z.zRe.F64())
					s.storeState(i, true, z.zIm.F64())
				})
			}
		}
	})
}

// sisoSteps returns the kernel that computes sequences step by step in float64.
func sisoSteps(f sisoForm) *Code {
	return New("siso_scan_steps", scanThreads, func(k *ptx.Kernel) {
		s := newSisoFrame(f, k)
		type state struct {
			z, f, b, c, cut complexF64
			g, h            []complexF64
		}
		states := make([]state, s.per)
		all := s.all()
		for i := range states {
			// number reads element index of a table that starts at place·all numbers, among rows·all complex
			// numbers
			number := func(place, rows int, index ptx.U32) complexF64 {
				re, im := k.VarF64(ptx.D(0)), k.VarF64(ptx.D(0))
				at := s.wide.Index64(all.MulWide(ptx.U(place)).Add(index.Wide()), 8)
				k.Guard(s.mine[i], func() { re.Set(at.ConstF64(0)) })
				at = at.Add(all.MulWide(ptx.U(8 * rows)))
				k.Guard(s.mine[i], func() { im.Set(at.ConstF64(0)) })
				return complexF64{re, im}
			}
			z := &states[i]
			z.z, z.f, z.b, z.c = varComplex(k), number(0, 1, s.j[i]), number(2, 1, s.j[i]), number(4, 1, s.j[i])
			if f.window {
				z.cut = number(6+4*f.rank, 1, s.j[i])
			}
			for r := range f.rank {
				// (heads, rank, states)
				n := s.head.MAD(ptx.U((f.rank-1)*f.states), s.j[i]).Add(ptx.U(r * f.states))
				z.g = append(z.g, number(6, f.rank, n))
				z.h = append(z.h, number(6+2*f.rank, f.rank, n))
			}
			k.If(s.first.U64().Ne(ptx.L(0)).And(s.mine[i]).And(s.live), func() {
				z.z.set(complexF64{s.loadState(i, false), s.loadState(i, true)})
			})
		}
		direct := ptx.D(0)
		if f.direct {
			direct = s.d.Index(s.head, 4).ConstF32(0).F64()
		}
		// part returns the sum of Re(c·z) over the states of a head
		sum := func(c func(z *state) complexF64) ptx.F64 {
			var y ptx.F64
			for i := range states {
				z := &states[i]
				p := c(z)
				if i == 0 {
					y = p.re.Mul(z.z.re)
				} else {
					y = p.re.FMA(z.z.re, y)
				}
				y = p.im.Neg().FMA(z.z.im, y)
			}
			return total(f.lanes, y, ptx.F64.ShuffleXor)
		}
		s.steps(1, func(step ptx.U32, here ptx.Pred) {
			u := s.read(step).F64()
			out := func() {
				y := sum(func(z *state) complexF64 { return z.c })
				if f.direct {
					y = direct.FMA(u, y)
				}
				s.write(step, here, y.F32())
			}
			if f.backward {
				out()
			}
			var old ptx.F64
			if f.window {
				old = s.leaving(step)
			}
			var low []ptx.F64
			for r := range f.rank {
				low = append(low, sum(func(z *state) complexF64 { return z.h[r] }))
			}
			for i := range states {
				z := &states[i]
				next := z.f.fma(z.z, complexF64{z.b.re.Mul(u), z.b.im.Mul(u)})
				for r, x := range low {
					next = complexF64{z.g[r].re.Neg().FMA(x, next.re), z.g[r].im.Neg().FMA(x, next.im)}
				}
				if f.window {
					next = complexF64{z.cut.re.Neg().FMA(old, next.re), z.cut.im.Neg().FMA(old, next.im)}
				}
				k.Guard(here, func() { z.z.set(next) })
			}
			if !f.backward {
				out()
			}
		})
		k.If(s.last.U64().Ne(ptx.L(0)).And(s.live), func() {
			for i := range states {
				k.If(s.mine[i], func() {
					s.storeState(i, false, states[i].z.re)
					s.storeState(i, true, states[i].z.im)
				})
			}
		})
	})
}
