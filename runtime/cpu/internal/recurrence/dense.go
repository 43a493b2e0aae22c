package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.DenseScan",
		Recurrence: record.RecurrenceKind{Make: denseRecurrence, Constant: []int{1, 2}}})
}

// dense is a DenseScan with fixed matrices. The states of a head depend on each other.
type dense struct {
	record.RecurrenceInfo
	heads       int
	abar, gamma []float64
	in, cut     *kernel.Blocks // Γ and -Āˡ Γ per head: added for an input, and for one that leaves the window
}

func denseRecurrence(s *lowering.Step) record.Recurrence {
	abar, gamma := record.Numbers64(s, 1), record.Numbers64(s, 2)
	shape := s.ConstShape(1)
	c := &dense{heads: shape[0] * shape[1], abar: abar, gamma: gamma}
	n := shape[2]
	dir, window := record.ScanAttrs(s.Node)
	c.RecurrenceInfo = record.RecurrenceInfo{
		N: c.heads * n, Window: window, Direction: dir, Size: 2 * c.heads * n, Saved: c.heads * n, PerHead: n,
		VRe: 0, VIm: -1, State: record.Index(!s.Absent(3), 3),
		XRe: record.Index(s.Node.Out(0) != nil, 0), XIm: -1, StateOut: record.Index(s.Node.Out(1) != nil, 1),
	}
	return record.Keep(s, []int{1, 2}, nil, func() *dense {
		c.in = kernel.NewBlocks(c.heads, n, n)
		if window > 0 {
			c.cut = kernel.NewBlocks(c.heads, n, n)
		}
		return c
	}, func(c *dense) {
		c.in.Fill(record.Narrow(gamma))
		if window == 0 {
			return
		}
		all := make([]float64, len(gamma))
		for h := range c.heads {
			a, g := c.matrices(h)
			cut := all[h*n*n : (h+1)*n*n]
			multiply(cut, power(a, n, window), g, n)
			for i := range cut {
				cut[i] = -cut[i]
			}
		}
		c.cut.Fill(record.Narrow(all))
	})
}

func (c *dense) matrices(h int) (abar, gamma []float64) {
	n2 := c.PerHead * c.PerHead
	return c.abar[h*n2 : (h+1)*n2], c.gamma[h*n2 : (h+1)*n2]
}

// multiply sets out to a b, for square matrices of n rows.
func multiply(out, a, b []float64, n int) {
	clear(out)
	for i := range n {
		for k, x := range a[i*n : (i+1)*n] {
			for j, y := range b[k*n : (k+1)*n] {
				out[i*n+j] += x * y
			}
		}
	}
}

// power returns the k-th power of a square matrix of n rows.
func power(a []float64, n, k int) []float64 {
	result, square, next := make([]float64, n*n), append([]float64(nil), a...), make([]float64, n*n)
	for i := range n {
		result[i*n+i] = 1
	}
	for ; k > 0; k >>= 1 {
		if k&1 == 1 {
			multiply(next, result, square, n)
			result, next = next, result
		}
		multiply(next, square, square, n)
		square, next = next, square
	}
	return result
}

func (c *dense) Info() *record.RecurrenceInfo { return &c.RecurrenceInfo }

func (c *dense) Tiled(form string, rows int) record.TileKernel {
	k := denseScan{c, rows}
	if form == essm.FormChunked {
		return &denseChunk{denseScan: k}
	}
	return k
}

func (c *dense) Sequence(form string, length int, history bool) record.SequenceKernel {
	k := &denseSequence{c: c}
	k.setup(&c.RecurrenceInfo, length, history, form == essm.FormFFT)
	return k
}

// denseScan computes the recurrence step by step. It multiplies the inputs of a tile by Γ in float32; the state is in
// float64. The second half of z is scratch.
type denseScan struct {
	c    *dense
	rows int
}

func (k denseScan) Bytes() int64 { return 0 }

func (k denseScan) Prepare() {}

func (k denseScan) Scratch() int { return k.rows * k.c.N }

// drive returns the contributions of a tile's inputs to the states, in tmp.
func (k denseScan) drive(in *record.TileInput, rows int, tmp []float32) []float32 {
	n := k.c.N
	kernel.Heads(tmp, n, in.Re, n, rows, k.c.in, 0, false)
	if in.OldRe != nil {
		kernel.Heads(tmp, n, in.OldRe, n, rows, k.c.cut, 0, true)
	}
	return tmp[:rows*n]
}

// part returns rows from the first state of head h on; nil for nil.
func (k denseScan) part(x []float32, h int) []float32 {
	if x == nil {
		return nil
	}
	return x[h*k.c.PerHead:]
}

func (k denseScan) Forward(x, _ []float32, in *record.TileInput, rows int, z []float64, tmp []float32) {
	g := k.drive(in, rows, tmp)
	n := k.c.PerHead
	for h := range k.c.heads {
		a, _ := k.c.matrices(h)
		kernel.DenseForward(k.part(x, h), k.part(g, h), k.c.N, rows, a, z[h*n:(h+1)*n], z[k.c.N+h*n:k.c.N+(h+1)*n])
	}
}

func (k denseScan) Backward(x, _ []float32, in *record.TileInput, rows int, z []float64, tmp []float32, add bool) {
	g := k.drive(in, rows, tmp)
	n := k.c.PerHead
	for h := range k.c.heads {
		a, _ := k.c.matrices(h)
		kernel.DenseBackward(k.part(x, h), k.part(g, h), k.c.N, rows, a, z[h*n:(h+1)*n], z[k.c.N+h*n:k.c.N+(h+1)*n],
			add)
	}
}

// denseChunk computes chunks of ChunkRows steps by powers of Ā.
type denseChunk struct {
	denseScan
	powers []float64 // per head: Ā⁰ … Ā^ChunkRows
}

const ChunkRows = 8

func (k *denseChunk) Bytes() int64 {
	return int64(k.c.heads*(ChunkRows+1)*k.c.PerHead*k.c.PerHead) * 8
}

func (k *denseChunk) Prepare() {
	n := k.c.PerHead
	if k.powers == nil {
		k.powers = make([]float64, k.c.heads*(ChunkRows+1)*n*n)
	}
	for h := range k.c.heads {
		a, _ := k.c.matrices(h)
		for i := range n {
			k.power(h, 0)[i*n+i] = 1
		}
		for p := 1; p <= ChunkRows; p++ {
			multiply(k.power(h, p), a, k.power(h, p-1), n)
		}
	}
}

func (k *denseChunk) power(h, p int) []float64 {
	n2 := k.c.PerHead * k.c.PerHead
	at := (h*(ChunkRows+1) + p) * n2
	return k.powers[at : at+n2]
}

func (k *denseChunk) Forward(x, _ []float32, in *record.TileInput, rows int, z []float64, tmp []float32) {
	g := k.drive(in, rows, tmp)
	n, all := k.c.PerHead, k.c.N
	for h := range k.c.heads {
		zh, next := z[h*n:(h+1)*n], z[all+h*n:all+(h+1)*n]
		for lo := 0; lo < rows; lo += ChunkRows {
			hi := min(lo+ChunkRows, rows)
			for t := lo; t < hi; t++ {
				clear(next)
				kernel.MatVec(next, k.power(h, t-lo+1), zh)
				for q := lo; q <= t; q++ {
					kernel.MatVec32(next, k.power(h, t-q), g[q*all+h*n:q*all+(h+1)*n])
				}
				if x != nil {
					for i, v := range next {
						x[t*all+h*n+i] = float32(v)
					}
				}
			}
			copy(zh, next)
		}
	}
}

func (k *denseChunk) Backward(x, _ []float32, in *record.TileInput, rows int, z []float64, tmp []float32, add bool) {
	g := k.drive(in, rows, tmp)
	n, all := k.c.PerHead, k.c.N
	for h := range k.c.heads {
		zh, next := z[h*n:(h+1)*n], z[all+h*n:all+(h+1)*n]
		for hi := rows; hi > 0; {
			lo := (hi - 1) / ChunkRows * ChunkRows
			after := func(t int) { // sets next to the state that step t reads
				clear(next)
				kernel.MatVec(next, k.power(h, hi-t-1), zh)
				for q := t + 1; q < hi; q++ {
					kernel.MatVec32(next, k.power(h, q-t-1), g[q*all+h*n:q*all+(h+1)*n])
				}
			}
			for t := lo; t < hi && x != nil; t++ {
				after(t)
				for i, v := range next {
					if add {
						v += float64(x[t*all+h*n+i])
					}
					x[t*all+h*n+i] = float32(v)
				}
			}
			after(lo - 1)
			copy(zh, next)
			hi = lo
		}
	}
}

// denseSequence convolves whole sequences with the matrix-valued kernel, a head at a time. It computes the kernel row
// by row, since the whole would be large.
type denseSequence struct {
	convolver
	c *dense
}

func (k *denseSequence) Bytes() int64 { return k.tables() }

func (k *denseSequence) Prepare() {}

func (k *denseSequence) Fill(w *record.Workspace) { k.fillTables(w) }

func (k *denseSequence) Pieces() int { return k.c.heads }

func (k *denseSequence) Scratch() int {
	n := k.c.PerHead
	size := n*(k.past+k.length) + k.length*n + n*k.taps
	if k.fft != nil {
		return size + (n+3)*k.fft.Len()
	}
	return size + k.taps
}

// stepsUnchecked is the number of steps between two checks for a stopped run.
const stepsUnchecked = 64

func (k *denseSequence) Run(h int, s *record.Sequence, tmp []float32, state []float64) {
	n, all, cols := k.c.PerHead, k.c.N, k.past+k.length
	take := func(n int) (p []float32) {
		p, tmp = tmp[:n], tmp[n:]
		return p
	}
	in, out, taps := take(n*cols), take(n*k.length), take(n*k.taps)
	row, next := state[:n], state[n:2*n]
	for j := range n {
		s.Column(in[j*cols:(j+1)*cols], all, h*n+j, false)
	}
	clear(out)
	abar, gamma := k.c.matrices(h)
	if s.Z != nil && k.c.Window == 0 {
		copy(row, s.Z[h*n:(h+1)*n])
		for t := range k.length {
			if t%stepsUnchecked == 0 && s.Stopped() {
				return
			}
			clear(next)
			kernel.MatVec(next, abar, row)
			copy(row, next)
			for i, v := range row {
				out[i*k.length+t] = float32(v)
			}
		}
	}
	var spectra, spec, acc, work []float32
	size := 0
	if k.fft != nil {
		size = k.fft.Len()
		spectra, spec, acc, work = take(n*size), take(size), take(size), take(size)
		for j := range n {
			if s.Stopped() {
				return
			}
			k.fft.Forward(spectra[j*size:(j+1)*size], in[j*cols:(j+1)*cols], work, s.W.Halted)
		}
	}
	for i := range n {
		// Row i of Āᵗ Γ, from row i of Āᵗ.
		clear(row)
		row[i] = 1
		for t := range k.taps {
			if t%stepsUnchecked == 0 && s.Stopped() {
				return
			}
			clear(next)
			addRow(next, row, gamma)
			for j, v := range next {
				taps[j*k.taps+t] = float32(v)
			}
			clear(next)
			addRow(next, row, abar)
			copy(row, next)
		}
		y := out[i*k.length : (i+1)*k.length]
		clear(acc)
		for j := range n {
			if s.Stopped() {
				return
			}
			kj := taps[j*k.taps : (j+1)*k.taps]
			if k.fft == nil {
				k.direct(s, y, in[j*cols:(j+1)*cols], kj, tmp)
				continue
			}
			k.spectrum(spec, kj, work, s.W)
			k.fft.MulAdd(acc, spectra[j*size:(j+1)*size], spec, 1)
		}
		if k.fft != nil {
			k.inverse(y, acc, work, s.W)
		}
	}
	for i := range n {
		record.SetColumn(s.X, out[i*k.length:(i+1)*k.length], all, h*n+i)
	}
}

// addRow adds the row vector v M to y.
func addRow(y, v, m []float64) {
	n := len(y)
	for k, a := range v {
		for j, b := range m[k*n : (k+1)*n] {
			y[j] += a * b
		}
	}
}
