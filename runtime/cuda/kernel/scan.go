package kernel

import (
	"encoding/binary"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// A diagonal recurrence over time, as essm.Scan defines it, in three kernels. A thread computes one state over one
// tile, a fixed number of steps:
//
//	ends    the state that each tile reaches from zero
//	carry   the state before each tile, from these, in float64 with powers of ā from the host
//	states  the states at each step, from the state before the tile
//
// Inside a tile the recurrence is in float32, with ā as the sum of two numbers, because the rounding of ā to one
// would change sums over a long past. A sequence of at most one tile is one kernel, in float64 (steps).

// scanThreads is the number of threads of a block.
const scanThreads = 256

// ScanTile is the number of steps of a tile.
const ScanTile = 32

// ScanForm is everything that the texts of the kernels of a diagonal recurrence depend on.
type ScanForm struct {
	Tile              int // steps per tile, even
	Forward, Backward bool
	Window            bool // only the last Lags inputs count
	ComplexIn         bool // inputs have imaginary parts
	Re, Im            bool // the parts of the states to write
	State32           bool // states before the first and after the last step are float32 instead of float64
}

// Scan is a diagonal recurrence: its kernels, their operands, and the sizes of a launch. Sequences are laid out
// (Batch, Length, States) in float32. For each sample, a state has States real parts, then States imaginary parts,
// then the last Window inputs, oldest first; each input has States real parts, and with ComplexIn States imaginary
// parts.
type Scan struct {
	ScanForm
	Batch, Length, States int
	Lags                  int // of the window

	VRe, VIm Buffer
	XRe, XIm Buffer
	// Coefficients and Powers come from ScanCoefficients and ScanPowers.
	Coefficients, Powers Buffer
	First, Last          Buffer // states before the first and after the last step; if absent: zero, not wanted
	Scratch              Buffer // of ScratchBytes
}

// ScanCoefficients returns the coefficients that kernels read, for eigenvalues exp(a) and input weights b. For all
// states: ā; the remainder e of ā in float32; b; and the weight of an input that leaves a window of lags steps.
// All are in float64, and again in float32.
func ScanCoefficients(a, b []complex128, lags int) []byte {
	n := len(a)
	var single []float32
	var double []float64
	rows := make([][]float64, scanRows)
	for r := range rows {
		rows[r] = make([]float64, n)
	}
	for j := range n {
		p := power(a[j], 1)
		e := rest(p)
		var cut complex128
		if lags > 0 {
			cut = power(a[j], float64(lags)) * b[j]
		}
		for r, x := range []float64{real(p), imag(p), real(e), imag(e), real(b[j]), imag(b[j]), real(cut), imag(cut)} {
			rows[r][j] = x
		}
	}
	for _, r := range rows {
		double = append(double, r...)
		for _, x := range r {
			single = append(single, float32(x))
		}
	}
	return append(float64Bytes(double), float32Bytes(single)...)
}

// scanRows is the number of coefficients of a state.
const scanRows = 8

// ScanPowers returns powers of the eigenvalues exp(a) in float64. For each exponent it has all real parts, then all
// imaginary parts. Kernels need the exponents ScanExponents.
func ScanPowers(a []complex128, exponents []int) []byte {
	var all []float64
	for _, k := range exponents {
		re, im := make([]float64, len(a)), make([]float64, len(a))
		for j := range a {
			p := power(a[j], float64(k))
			re[j], im[j] = real(p), imag(p)
		}
		all = append(append(all, re...), im...)
	}
	return float64Bytes(all)
}

// power returns exp(k·a).
func power(a complex128, k float64) complex128 {
	if k == 0 {
		return 1
	}
	r := math.Exp(k * real(a))
	s, c := math.Sincos(k * imag(a))
	return complex(r*c, r*s)
}

// rest returns the part of z that rounding to float32 loses.
func rest(z complex128) complex128 {
	return z - complex(float64(float32(real(z))), float64(float32(imag(z))))
}

// ScanExponents returns the exponents for a sequence of the given length: over a tile, over the tiles of one of
// carrySegments segments, and over the last tile.
func ScanExponents(tile, length int) []int {
	tiles := max(1, ceilDiv(length, tile))
	return []int{tile, tile * ceilDiv(tiles, carrySegments), length - (tiles-1)*tile}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// StateSize returns the number of elements of a state, per sample.
func (s *Scan) StateSize() int {
	per := 1
	if s.ComplexIn {
		per = 2
	}
	return s.States * (2 + per*s.Lags)
}

// tiles returns the number of tiles of a sample.
func (s *Scan) tiles() int { return ceilDiv(s.Length, s.Tile) }

// ScratchBytes returns the size of the scratch memory.
func (s *Scan) ScratchBytes() int {
	if s.Length <= s.Tile {
		return 0
	}
	n := 8 * s.Batch * s.tiles() * s.States
	if s.Forward && s.Backward {
		n *= 2
	}
	return n
}

// Calls returns the launches of the recurrence. There are none if it has no states, or neither steps nor a state.
func (s *Scan) Calls() []Call {
	if s.Batch*s.States == 0 || s.Length == 0 && s.Last == 0 {
		return nil
	}
	var calls []Call
	grid := func(threads int) driver.Dim {
		y, z := gridBatch(s.Batch)
		return driver.Dim{X: uint32(ceilDiv(threads, scanThreads)), Y: y, Z: z}
	}
	sizes := []Arg{U32(s.Batch), U32(s.Length), U32(s.States), U32(s.Lags)}
	ends := func() []Arg {
		if s.Forward && s.Backward {
			return []Arg{Ptr(s.Scratch), PtrAt(s.Scratch, s.ScratchBytes()/2)}
		}
		return []Arg{Ptr(s.Scratch), Ptr(s.Scratch)}
	}
	single := PtrAt(s.Coefficients, 8*scanRows*s.States)
	if s.Length <= s.Tile {
		calls = append(calls, NewCall(scanSteps(s.ScanForm), grid(s.States), append(sizes, Ptr(s.VRe), Ptr(s.VIm),
			Ptr(s.XRe), Ptr(s.XIm), Ptr(s.Coefficients), Ptr(s.First), Ptr(s.Last), U32(s.StateSize()))...))
	} else {
		all := s.tiles() * s.States
		inputs := []Arg{Ptr(s.VRe), Ptr(s.VIm), single, Ptr(s.First), U32(s.StateSize())}
		calls = append(calls,
			NewCall(scanEnds(s.ScanForm), grid(all), append(append(sizes, inputs...), ends()...)...),
			NewCall(scanCarry(s.ScanForm), driver.Dim{X: uint32(ceilDiv(s.States, 32)), Y: grid(0).Y, Z: grid(0).Z},
				append(sizes, append([]Arg{Ptr(s.Powers), Ptr(s.First), Ptr(s.Last), U32(s.StateSize()),
					U32(s.tiles())}, ends()...)...)...),
			NewCall(scanStates(s.ScanForm), grid(all), append(append(append(sizes, inputs...), ends()...), Ptr(s.XRe),
				Ptr(s.XIm))...))
	}
	if s.Last != 0 && s.Lags > 0 {
		calls = append(calls, NewCall(scanHistory(s.ScanForm), grid(s.Lags*s.States), append(sizes, Ptr(s.VRe),
			Ptr(s.VIm), Ptr(s.First), Ptr(s.Last), U32(s.StateSize()))...))
	}
	return calls
}

// gridBatch spreads samples over two dimensions of a grid, of at most 65535 each.
func gridBatch(batch int) (y, z uint32) {
	z = uint32(ceilDiv(batch, 65535))
	return uint32(ceilDiv(batch, int(max(z, 1)))), max(z, 1)
}

// scanFrame is the common part of the kernels of a scan: sizes, sample, state, tile.
type scanFrame struct {
	f                           ScanForm
	k                           *ptx.Kernel
	batch, length, states, lags ptx.U32
	sample, j, tile             ptx.U32
	vRe, vIm, first             ptx.Addr
	stateSize                   ptx.U32
}

func newScanFrame(f ScanForm, k *ptx.Kernel) *scanFrame {
	return &scanFrame{f: f, k: k, batch: k.U32Param("batch"), length: k.U32Param("length"), states: k.U32Param("states"),
		lags: k.U32Param("lags"), sample: k.BlockZ().MAD(k.GridY(), k.BlockY())}
}

// leaveUnless ends threads for which p is false.
func (s *scanFrame) leaveUnless(p ptx.Pred) { s.k.If(p.Not(), s.k.Return) }

// stride returns the stride of a step, in bytes.
func (s *scanFrame) stride() ptx.U64 { return s.states.MulWide(ptx.U(4)) }

// at returns the address of step t of the sample in a sequence.
func (s *scanFrame) at(x ptx.Addr, t ptx.U32) ptx.Addr {
	row := s.sample.MulWide(s.length).Add(t.Wide())
	return x.Index64(row.MAD(s.states.Wide(), s.j.Wide()), 4)
}

// stateAt returns the address of number i of the sample's state.
func (s *scanFrame) stateAt(x ptx.Addr, i ptx.U32) ptx.Addr {
	size := 8
	if s.f.State32 {
		size = 4
	}
	return x.Index64(s.sample.MulWide(s.stateSize).Add(i.Wide()), size)
}

// loadState reads a number of a state.
func (s *scanFrame) loadState(a ptx.Addr) ptx.F64 {
	if s.f.State32 {
		return a.LoadF32(0).F64()
	}
	return a.LoadF64(0)
}

func (s *scanFrame) storeState(a ptx.Addr, x ptx.F64) {
	if s.f.State32 {
		a.StoreF32(0, x.F32())
	} else {
		a.StoreF64(0, x)
	}
}

// pastAt returns the address in the state of the input back steps before the first, 1 ≤ back ≤ lags.
func (s *scanFrame) pastAt(x ptx.Addr, back ptx.U32, im bool) ptx.Addr {
	per := 1
	if s.f.ComplexIn {
		per = 2
	}
	row := s.lags.Sub(back)
	if per == 2 {
		row = row.Shl(ptx.U(1))
	}
	row = row.Add(ptx.U(2))
	if im {
		row = row.Add(ptx.U(1))
	}
	return s.stateAt(x, row.MAD(s.states, s.j))
}

// leaving reads the input that leaves the window at step t: lags steps earlier, possibly from the state before the
// first step, or 0 if there is none.
func (s *scanFrame) leaving(t ptx.U32, im bool) ptx.F32 {
	k := s.k
	out, v := k.VarF32(ptx.F(0)), s.vRe
	if im {
		v = s.vIm
	}
	k.IfElse(t.Ge(s.lags), func() {
		k.If(t.Sub(s.lags).Lt(s.length), func() { out.Set(s.at(v, t.Sub(s.lags)).LoadF32(0)) })
	}, func() {
		k.If(s.first.U64().Ne(ptx.L(0)), func() {
			out.Set(s.loadState(s.pastAt(s.first, s.lags.Sub(t), im)).F32())
		})
	})
	return out
}

// leavingAhead reads the input that leaves the window of a backward scan at step t, or 0 if there is none.
func (s *scanFrame) leavingAhead(t ptx.U32, im bool) ptx.F32 {
	k := s.k
	out, v := k.VarF32(ptx.F(0)), s.vRe
	if im {
		v = s.vIm
	}
	// t + lags may exceed 32 bits
	k.If(t.Wide().Add(s.lags.Wide()).Lt(s.length.Wide()), func() { out.Set(s.at(v, t.Add(s.lags)).LoadF32(0)) })
	return out
}

// coefficients are the coefficients of a state.
type coefficients struct{ aRe, aIm, eRe, eIm, bRe, bIm, cutRe, cutIm ptx.F32 }

func (s *scanFrame) coefficients(table ptx.Addr) coefficients {
	at := table.Index(s.j, 4)
	var x [scanRows]ptx.F32
	stride := s.stride()
	for i := range x {
		x[i] = at.ConstF32(0)
		at = at.Add(stride)
	}
	return coefficients{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}
}

// input returns b·v - cut·old, where absent parts are nil.
func (c *coefficients) input(vRe, vIm, oldRe, oldIm *ptx.F32) (re, im ptx.F32) {
	re, im = c.bRe.Mul(*vRe), c.bIm.Mul(*vRe)
	if vIm != nil {
		re, im = c.bIm.Neg().FMA(*vIm, re), c.bRe.FMA(*vIm, im)
	}
	if oldRe != nil {
		re, im = c.cutRe.Neg().FMA(*oldRe, re), c.cutIm.Neg().FMA(*oldRe, im)
	}
	if oldIm != nil {
		re, im = c.cutIm.FMA(*oldIm, re), c.cutRe.Neg().FMA(*oldIm, im)
	}
	return re, im
}

// advance returns ā·z + w.
func (c *coefficients) advance(zRe, zIm, wRe, wIm ptx.F32) (re, im ptx.F32) {
	re = c.eIm.Neg().FMA(zIm, c.eRe.FMA(zRe, wRe))
	im = c.eIm.FMA(zRe, c.eRe.FMA(zIm, wIm))
	re = c.aRe.FMA(zRe, c.aIm.Neg().FMA(zIm, re))
	im = c.aRe.FMA(zIm, c.aIm.FMA(zRe, im))
	return re, im
}

// tileFrame starts a kernel whose threads compute one state over one tile each.
func tileFrame(f ScanForm, k *ptx.Kernel) (s *scanFrame, c coefficients, begin ptx.U32) {
	s = newScanFrame(f, k)
	s.vRe, s.vIm = k.PtrParam("v_re"), k.PtrParam("v_im")
	table := k.PtrParam("coefficients")
	s.first, s.stateSize = k.PtrParam("first"), k.U32Param("state_size")
	q := k.BlockX().MAD(ptx.U(scanThreads), k.ThreadX())
	s.tile = q.Div(s.states)
	s.j = q.Sub(s.tile.Mul(s.states))
	begin = s.tile.Mul(ptx.U(f.Tile))
	s.leaveUnless(begin.Lt(s.length).And(s.sample.Lt(s.batch)))
	return s, s.coefficients(table), begin
}

// inputs reads the inputs of a tile, with 0 beyond the sequence. here[i] reports whether step i is in it.
func (s *scanFrame) inputs(begin ptx.U32) (here []ptx.Pred, re, im []ptx.F32) {
	k := s.k
	stride := s.stride()
	read := func(v ptx.Addr) []ptx.F32 {
		at := s.at(v, begin)
		out := make([]ptx.F32, s.f.Tile)
		for i := range out {
			out[i] = k.VarF32(ptx.F(0))
			k.Guard(here[i], func() { out[i].Set(at.LoadF32(0)) })
			at = at.Add(stride)
		}
		return out
	}
	for i := range s.f.Tile {
		here = append(here, begin.Add(ptx.U(i)).Lt(s.length))
	}
	re = read(s.vRe)
	if s.f.ComplexIn {
		im = read(s.vIm)
	}
	return here, re, im
}

// weighted returns the weighted input of step i of the tile, of a forward scan or, if ahead, of a backward one.
func (s *scanFrame) weighted(c *coefficients, begin ptx.U32, i int, re, im []ptx.F32, ahead bool) (wRe, wIm ptx.F32) {
	var vIm, oldRe, oldIm *ptx.F32
	if im != nil {
		vIm = &im[i]
	}
	if s.f.Window {
		old := s.leaving
		if ahead {
			old = s.leavingAhead
		}
		t := begin.Add(ptx.U(i))
		x := old(t, false)
		oldRe = &x
		if im != nil {
			y := old(t, true)
			oldIm = &y
		}
	}
	return c.input(&re[i], vIm, oldRe, oldIm)
}

// endAt returns the address of the state at the edge of the tile.
func (s *scanFrame) endAt(ends ptx.Addr, tiles ptx.U32) ptx.Addr {
	row := s.sample.MulWide(tiles).Add(s.tile.Wide()).Shl(ptx.U(1))
	return ends.Index64(row.MAD(s.states.Wide(), s.j.Wide()), 4)
}

// scanEnds returns the kernel that computes the state that each tile reaches from zero, in its directions.
func scanEnds(f ScanForm) *Code {
	f.Re, f.Im = false, false
	return New("scan_ends", scanThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1 // otherwise the compiler spills a register to fit one more block
		s, c, begin := tileFrame(f, k)
		fore, back := k.PtrParam("fore"), k.PtrParam("back")
		tiles := s.length.Add(ptx.U(f.Tile - 1)).Div(ptx.U(f.Tile))
		here, re, im := s.inputs(begin)
		write := func(ends ptx.Addr, zRe, zIm ptx.F32) {
			at := s.endAt(ends, tiles)
			at.StoreF32(0, zRe)
			at.Add(s.stride()).StoreF32(0, zIm)
		}
		if f.Forward {
			zRe, zIm := k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))
			for i := range f.Tile {
				wRe, wIm := s.weighted(&c, begin, i, re, im, false)
				nRe, nIm := c.advance(zRe, zIm, wRe, wIm)
				k.Guard(here[i], func() { zRe.Set(nRe); zIm.Set(nIm) })
			}
			write(fore, zRe, zIm)
		}
		if f.Backward {
			zRe, zIm := k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))
			for i := f.Tile - 1; i >= 0; i-- {
				wRe, wIm := s.weighted(&c, begin, i, re, im, true)
				nRe, nIm := c.advance(zRe, zIm, wRe, wIm)
				zRe.Set(nRe)
				zIm.Set(nIm)
			}
			write(back, zRe, zIm)
		}
	})
}

// scanStates returns the kernel that computes the states at each step from those before the tiles.
func scanStates(f ScanForm) *Code {
	return New("scan_states", scanThreads, func(k *ptx.Kernel) {
		s, c, begin := tileFrame(f, k)
		fore, back := k.PtrParam("fore"), k.PtrParam("back")
		out := [2]ptx.Addr{k.PtrParam("x_re"), k.PtrParam("x_im")}
		want := [2]bool{f.Re, f.Im}
		tiles := s.length.Add(ptx.U(f.Tile - 1)).Div(ptx.U(f.Tile))
		here, re, im := s.inputs(begin)
		start := func(ends ptx.Addr) (zRe, zIm ptx.F32) {
			at := s.endAt(ends, tiles)
			return k.VarF32(at.LoadF32(0)), k.VarF32(at.Add(s.stride()).LoadF32(0))
		}
		stride := s.stride()
		for p := range out {
			if want[p] {
				out[p] = s.at(out[p], begin)
			}
		}
		var x [2][]ptx.F32
		if f.Forward {
			zRe, zIm := start(fore)
			for i := range f.Tile {
				wRe, wIm := s.weighted(&c, begin, i, re, im, false)
				nRe, nIm := c.advance(zRe, zIm, wRe, wIm)
				zRe, zIm = nRe, nIm
				for p, z := range []ptx.F32{zRe, zIm} {
					if want[p] && f.Backward {
						x[p] = append(x[p], z)
					} else if want[p] {
						k.Guard(here[i], func() { out[p].StoreF32(0, z) })
						out[p] = out[p].Add(stride)
					}
				}
			}
		}
		if !f.Backward {
			return
		}
		for p := range out {
			if want[p] {
				out[p] = out[p].Add(s.states.MulWide(ptx.U(4 * (f.Tile - 1))))
			}
		}
		zRe, zIm := start(back)
		for i := f.Tile - 1; i >= 0; i-- {
			for p, z := range []ptx.F32{zRe, zIm} {
				if !want[p] {
					continue
				}
				if f.Forward {
					z = z.Add(x[p][i])
				}
				k.Guard(here[i], func() { out[p].StoreF32(0, z) })
				out[p] = out[p].Add(ptx.L(0).Sub(stride))
			}
			wRe, wIm := s.weighted(&c, begin, i, re, im, true)
			zRe, zIm = c.advance(zRe, zIm, wRe, wIm)
		}
	})
}

func float32Bytes(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func float64Bytes(x []float64) []byte {
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}
