package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.Scan",
		Recurrence: record.RecurrenceKind{Make: diagonalRecurrence, Constant: []int{1, 2, 3, 4}}})
}

// diagonal is a Scan with fixed coefficients.
type diagonal struct {
	record.RecurrenceInfo
	a, b []complex128
	sys  kernel.Diagonal
}

func diagonalRecurrence(s *lowering.Step) record.Recurrence {
	aRe, aIm := record.Numbers64(s, 1), record.Numbers64(s, 2)
	bRe, bIm := record.Numbers64(s, 3), record.Numbers64(s, 4)
	c := &diagonal{}
	n := len(aRe)
	dir, window := record.ScanAttrs(s.Node)
	c.RecurrenceInfo = record.RecurrenceInfo{
		N: n, Window: window, Direction: dir, Size: 2 * n, Saved: 2 * n, PerHead: 1,
		VRe: 0, VIm: record.Index(!s.Absent(5), 5), State: record.Index(!s.Absent(6), 6),
		XRe: record.Index(s.Node.Out(0) != nil, 0), XIm: record.Index(s.Node.Out(1) != nil, 1),
		StateOut: record.Index(s.Node.Out(2) != nil, 2),
	}
	c.Beside = c.VIm < 0 && c.XIm < 0
	c.sys = kernel.Diagonal{ARe: make([]float64, n), AIm: make([]float64, n), BRe: bRe, BIm: bIm}
	if window > 0 {
		c.sys.CutRe, c.sys.CutIm = make([]float64, n), make([]float64, n)
	}
	return record.Keep(s, []int{1, 2, 3, 4}, nil, func() *diagonal {
		c.a, c.b = make([]complex128, n), make([]complex128, n)
		return c
	}, func(c *diagonal) {
		unstable := false
		for j := range n {
			a, b := complex(aRe[j], aIm[j]), complex(bRe[j], bIm[j])
			c.a[j], c.b[j] = a, b
			unstable = unstable || essm.Unstable(a)
			p := essm.Pow(a, 1)
			c.sys.ARe[j], c.sys.AIm[j] = real(p), imag(p)
			if window > 0 {
				cut := essm.Pow(a, float64(window)) * b
				c.sys.CutRe[j], c.sys.CutIm[j] = real(cut), imag(cut)
			}
		}
		c.sys.Pack()
		c.Judge(s, unstable)
	})
}

func (c *diagonal) Info() *record.RecurrenceInfo { return &c.RecurrenceInfo }

func (c *diagonal) Tiled(form string, rows int) record.TileKernel {
	scan := DiagonalScan{sys: &c.sys, n: c.N, across: newAcross(&c.RecurrenceInfo, c.a, rows)}
	if form == essm.FormChunked {
		return &diagonalChunk{DiagonalScan: scan, c: c, rows: rows}
	}
	return scan
}

// across has the powers of ā over rows steps, real parts before imaginary ones.
type across struct {
	a      []complex128
	rows   int
	powers []float64
}

// newAcross returns the powers of a system that runs backward and is stable, and nil for others.
func newAcross(info *record.RecurrenceInfo, a []complex128, rows int) *across {
	if info.Direction == essm.Forward || info.Unstable {
		return nil
	}
	return &across{a, rows, make([]float64, 2*len(a))}
}

func (p *across) fill() {
	if p == nil {
		return
	}
	for j, v := range p.a {
		q := essm.Pow(v, float64(p.rows))
		p.powers[j], p.powers[len(p.a)+j] = real(q), imag(q)
	}
}

func (c *diagonal) Sequence(form string, length int, history bool) record.SequenceKernel {
	if form == essm.FormFFT && c.Beside {
		k := &responses{from: c}
		k.setupBeside(&c.RecurrenceInfo, length, history, true)
		return k
	}
	k := &diagonalSequence{c: c}
	k.setup(&c.RecurrenceInfo, length, history, form == essm.FormFFT)
	return k
}

// impulse sets re and im to b·exp(a·j) for j from 0 on. It computes in float64, with exact powers every 64 steps.
func impulse(re, im []float32, a, b complex128) {
	step := essm.Pow(a, 1)
	var p complex128
	for j := range re {
		if j%64 == 0 {
			p = b * essm.Pow(a, float64(j))
		}
		re[j] = float32(real(p))
		if im != nil {
			im[j] = float32(imag(p))
		}
		p *= step
	}
}

// kernels computes the kernel of state i, if inputs and outputs are real.
func (c *diagonal) kernels(i int, taps [2][]float32, _ *record.Workspace) {
	all := taps[0]
	if taps[1] != nil {
		all = taps[1]
	}
	impulse(all, nil, c.a[i], c.b[i])
	if taps[1] != nil {
		spread(taps, all, c.Direction)
	}
}

func (c *diagonal) free(i int, s *record.Sequence, y []float32, _ []float64) bool {
	step, z := essm.Pow(c.a[i], 1), complex(s.Z[i], s.Z[c.N+i])
	if z == 0 {
		return false
	}
	for t := range y {
		if t%stepsUnchecked == 0 && s.Stopped() {
			return true
		}
		z *= step
		y[t] = float32(real(z))
	}
	return true
}

// DiagonalScan computes the recurrence step by step.
type DiagonalScan struct {
	sys *kernel.Diagonal
	n   int
	// powers of ā over a full tile; nil if the system does not run backward, or is unstable
	across *across
}

// Jump multiplies by the powers of ā over a full tile.
func (k DiagonalScan) Jump(z, from []float64) {
	n := k.n
	pr, pi, fr, fi, zr, zi := k.across.powers[:n], k.across.powers[n:2*n], from[:n], from[n:2*n], z[:n], z[n:2*n]
	for j, a := range pr {
		zr[j] += a*fr[j] - pi[j]*fi[j]
		zi[j] += a*fi[j] + pi[j]*fr[j]
	}
}

func (k DiagonalScan) Jumps() bool { return k.across != nil }

func (k DiagonalScan) Bytes() int64 { return 0 }

func (k DiagonalScan) Prepare() { k.across.fill() }

func (k DiagonalScan) Scratch() int { return 0 }

func (k DiagonalScan) Forward(x, xi []float32, in *record.TileInput, rows int, z []float64, _ []float32) {
	v := kernel.Inputs{Re: in.Re, Im: in.Im, OldRe: in.OldRe, OldIm: in.OldIm}
	k.sys.ScanForward(x, xi, &v, rows, z[:k.n], z[k.n:])
}

func (k DiagonalScan) Backward(x, xi []float32, in *record.TileInput, rows int, z []float64, _ []float32, add bool) {
	v := kernel.Inputs{Re: in.Re, Im: in.Im, OldRe: in.OldRe, OldIm: in.OldIm}
	k.sys.ScanBackward(x, xi, &v, rows, z[:k.n], z[k.n:], add)
}

// diagonalChunk computes a tile by convolution, and the state between tiles by the recurrence.
type diagonalChunk struct {
	DiagonalScan
	c    *diagonal
	rows int
	// Per state, rows numbers each: powers of ā from 1 on, and the impulse responses to an input and to one that leaves
	// the window, in the order of lags and reversed.
	power, in, cut [2][]float32
	inRev, cutRev  [2][]float32
}

func (k *diagonalChunk) Bytes() int64 {
	tables := int64(6)
	if k.c.Window > 0 {
		tables = 10
	}
	return tables * int64(k.n*k.rows) * 4
}

func (k *diagonalChunk) Prepare() {
	k.DiagonalScan.Prepare()
	sized := func(t *[2][]float32) {
		for i := range t {
			if t[i] == nil {
				t[i] = make([]float32, k.n*k.rows)
			}
		}
	}
	table := func(t *[2][]float32, coef func(j int) complex128) {
		sized(t)
		for j := range k.n {
			lo, hi := j*k.rows, (j+1)*k.rows
			impulse(t[0][lo:hi], t[1][lo:hi], k.c.a[j], coef(j))
		}
	}
	reversed := func(r, t *[2][]float32) {
		sized(r)
		for p := range t {
			for i, v := range t[p] {
				j, lag := i/k.rows, i%k.rows
				r[p][j*k.rows+k.rows-1-lag] = v
			}
		}
	}
	table(&k.power, func(j int) complex128 { return essm.Pow(k.c.a[j], 1) })
	table(&k.in, func(j int) complex128 { return k.c.b[j] })
	if w := k.c.Window; w > 0 && w < k.rows {
		for _, t := range k.in {
			for j := range k.n { // taps beyond the window
				clear(t[j*k.rows+w : (j+1)*k.rows])
			}
		}
	}
	reversed(&k.inRev, &k.in)
	if k.c.Window > 0 {
		table(&k.cut, func(j int) complex128 { return -complex(k.sys.CutRe[j], k.sys.CutIm[j]) })
		reversed(&k.cutRev, &k.cut)
	}
}

func (k *diagonalChunk) Scratch() int { return 6 * k.rows }

func (k *diagonalChunk) Forward(x, xi []float32, in *record.TileInput, rows int, z []float64, tmp []float32) {
	k.tile(x, xi, in, rows, z, tmp, true, false)
	k.DiagonalScan.Forward(nil, nil, in, rows, z, nil)
}

func (k *diagonalChunk) Backward(x, xi []float32, in *record.TileInput, rows int, z []float64, tmp []float32,
	add bool) {
	if x != nil || xi != nil {
		k.tile(x, xi, in, rows, z, tmp, false, add)
	}
	k.DiagonalScan.Backward(nil, nil, in, rows, z, nil, false)
}

// tile computes the outputs of a tile: the response to the state at its edge plus the response to its own inputs.
// With a window, the inputs in the state leave the window one by one. Rows after the last of them ignore the state,
// since the difference of state and inputs would consist of float32 rounding errors.
func (k *diagonalChunk) tile(x, xi []float32, in *record.TileInput, rows int, z []float64, tmp []float32,
	forward, add bool) {
	n, r := k.n, k.rows
	yr, yi := tmp[:rows], tmp[r:r+rows]
	cols := [4][]float32{}
	for i, src := range [4][]float32{in.Re, in.Im, in.OldRe, in.OldIm} {
		if src != nil {
			cols[i] = tmp[(2+i)*r : (2+i)*r+rows]
		}
	}
	for j := range n {
		for i, src := range [4][]float32{in.Re, in.Im, in.OldRe, in.OldIm} {
			for t := range cols[i] {
				cols[i][t] = src[t*n+j]
			}
		}
		zr, zi := z[j], z[n+j]
		lo, hi := 0, rows // the rows that read the state
		if w := k.c.Window; w > 0 && forward {
			hi = min(hi, w-1)
		} else if w > 0 {
			lo = max(lo, rows-w)
		}
		clear(yr)
		clear(yi)
		for t := lo; t < hi; t++ {
			// Forward, row t reads the state before the tile times ā^(t+1); backward, the state after it times
			// ā^(rows-t-1).
			pr, pi := 1.0, 0.0
			p := t
			if !forward {
				p = rows - t - 2
			}
			if p >= 0 {
				pr, pi = float64(k.power[0][j*r+p]), float64(k.power[1][j*r+p])
			}
			yr[t], yi[t] = float32(pr*zr-pi*zi), float32(pr*zi+pi*zr)
		}
		sum := func(y, v, kn, rev []float32, neg bool) {
			if v == nil {
				return
			}
			if neg {
				for i := range v {
					v[i] = -v[i]
				}
			}
			if forward {
				kernel.Correlate(y, v, rev[j*r:(j+1)*r], -(r - 1))
			} else {
				kernel.Correlate(y, v, kn[j*r:(j+1)*r], 1)
			}
			if neg {
				for i := range v {
					v[i] = -v[i]
				}
			}
		}
		sum(yr, cols[0], k.in[0], k.inRev[0], false)
		sum(yr, cols[1], k.in[1], k.inRev[1], true)
		sum(yr[lo:hi], part(cols[2], lo, hi), k.cut[0], k.cutRev[0], false)
		sum(yr[lo:hi], part(cols[3], lo, hi), k.cut[1], k.cutRev[1], true)
		if xi != nil {
			sum(yi, cols[0], k.in[1], k.inRev[1], false)
			sum(yi, cols[1], k.in[0], k.inRev[0], false)
			sum(yi[lo:hi], part(cols[2], lo, hi), k.cut[1], k.cutRev[1], false)
			sum(yi[lo:hi], part(cols[3], lo, hi), k.cut[0], k.cutRev[0], false)
		}
		for i, dst := range [2][]float32{x, xi} {
			if dst == nil {
				continue
			}
			y := [2][]float32{yr, yi}[i]
			for t, v := range y {
				if add {
					v += dst[t*n+j]
				}
				dst[t*n+j] = v
			}
		}
	}
}

// part returns v[lo:hi]; nil for nil.
func part(v []float32, lo, hi int) []float32 {
	if v == nil {
		return nil
	}
	return v[lo:hi]
}

// diagonalSequence convolves whole sequences, a few states at a time.
type diagonalSequence struct {
	convolver
	c      *diagonal
	re, im []float32 // spectra, by state
}

const statesPerPiece = 4

func (k *diagonalSequence) Pieces() int { return (k.c.N + statesPerPiece - 1) / statesPerPiece }

// complexKernel reports whether the imaginary part of the kernel is needed.
func (k *diagonalSequence) complexKernel() bool { return k.c.VIm >= 0 || k.c.XIm >= 0 }

func (k *diagonalSequence) Bytes() int64 {
	if k.fft == nil {
		return 0
	}
	n := int64(k.fft.Len()*k.c.N) * 4
	if k.complexKernel() {
		n *= 2
	}
	return n + k.tables()
}

func (k *diagonalSequence) Prepare() {
	if k.fft == nil {
		return
	}
	n := k.fft.Len() * k.c.N
	k.re = make([]float32, n)
	if k.complexKernel() {
		k.im = make([]float32, n)
	}
}

func (k *diagonalSequence) Fill(w *record.Workspace) {
	if !k.fillTables(w) {
		return
	}
	n := k.fft.Len()
	re, im, tmp := w.Scratch[:k.taps], w.Scratch[k.taps:2*k.taps], w.Scratch[2*k.taps:]
	for j := 0; j < k.c.N && !w.Stopped(); j++ {
		impulse(re, im, k.c.a[j], k.c.b[j])
		k.spectrum(k.re[j*n:(j+1)*n], re, tmp, w)
		if k.im != nil {
			k.spectrum(k.im[j*n:(j+1)*n], im, tmp, w)
		}
	}
}

func (k *diagonalSequence) Scratch() int {
	n := 2*(k.past+k.length) + 2*k.length
	if k.fft != nil {
		return n + 4*k.fft.Len()
	}
	return n + 3*k.taps
}

func (k *diagonalSequence) Run(piece int, s *record.Sequence, tmp []float32, _ []float64) {
	n := k.c.N
	col, tmp := tmp[:k.past+k.length], tmp[k.past+k.length:]
	colIm, tmp := tmp[:k.past+k.length], tmp[k.past+k.length:]
	y, tmp := tmp[:k.length], tmp[k.length:]
	yi, tmp := tmp[:k.length], tmp[k.length:]
	if s.Vi == nil {
		colIm = nil
	}
	if s.Xi == nil {
		yi = nil
	}
	for j := piece * statesPerPiece; j < min(n, (piece+1)*statesPerPiece) && !s.Stopped(); j++ {
		s.Column(col, n, j, false)
		if colIm != nil {
			s.Column(colIm, n, j, true)
		}
		k.free(y, yi, s, j)
		if k.fft != nil {
			k.byFFT(s, y, yi, col, colIm, j, tmp)
		} else {
			k.byDefinition(s, y, yi, col, colIm, j, tmp)
		}
		if s.X != nil {
			record.SetColumn(s.X, y, n, j)
		}
		if yi != nil {
			record.SetColumn(s.Xi, yi, n, j)
		}
	}
}

// free sets y to the response to the state before the first step; to zero with a window, where past inputs take its
// place.
func (k *diagonalSequence) free(y, yi []float32, s *record.Sequence, j int) {
	clear(y)
	clear(yi)
	if s.Z == nil || k.c.Window > 0 {
		return
	}
	n := k.c.N
	step, z := essm.Pow(k.c.a[j], 1), complex(s.Z[j], s.Z[n+j])
	for t := range y {
		z *= step
		y[t] = float32(real(z))
		if yi != nil {
			yi[t] = float32(imag(z))
		}
	}
}

func (k *diagonalSequence) byDefinition(s *record.Sequence, y, yi, col, colIm []float32, j int, tmp []float32) {
	re, im, rev := tmp[:k.taps], tmp[k.taps:2*k.taps], tmp[2*k.taps:]
	impulse(re, im, k.c.a[j], k.c.b[j])
	k.direct(s, y, col, re, rev)
	if yi != nil {
		k.direct(s, yi, col, im, rev)
		if colIm != nil {
			k.direct(s, yi, colIm, re, rev)
		}
	}
	if colIm != nil {
		for i := range im {
			im[i] = -im[i]
		}
		k.direct(s, y, colIm, im, rev)
	}
}

func (k *diagonalSequence) byFFT(s *record.Sequence, y, yi, col, colIm []float32, j int, tmp []float32) {
	n := k.fft.Len()
	v, w, acc, work := tmp[:n], tmp[n:2*n], tmp[2*n:3*n], tmp[3*n:4*n]
	part := func(all []float32) []float32 { return all[j*n : (j+1)*n] }
	k.fft.Forward(v, col, work, s.W.Halted)
	if colIm != nil {
		k.fft.Forward(w, colIm, work, s.W.Halted)
	}
	clear(acc)
	k.fft.MulAdd(acc, v, part(k.re), 1)
	if colIm != nil {
		k.fft.MulAdd(acc, w, part(k.im), -1)
	}
	k.inverse(y, acc, work, s.W)
	if yi == nil {
		return
	}
	clear(acc)
	k.fft.MulAdd(acc, v, part(k.im), 1)
	if colIm != nil {
		k.fft.MulAdd(acc, w, part(k.re), 1)
	}
	k.inverse(yi, acc, work, s.W)
}
