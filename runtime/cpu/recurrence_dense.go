package cpu

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	register(record{op: "essm.DenseScan", recurrence: recurrenceKind{make: denseRecurrence, constant: []int{1, 2}}})
}

// dense is a DenseScan with constant matrices. The states of one head are mixed.
type dense struct {
	recurrenceInfo
	heads       int
	abar, gamma []float64
	in, cut     *kernel.Blocks // Γ and -Āˡ Γ per head: what an input gives, and takes when it leaves the window
}

func denseRecurrence(s *lowering.Step) recurrence {
	abar, gamma := s.Constant64(1), s.Constant64(2)
	shape := s.ConstShape(1)
	c := &dense{heads: shape[0] * shape[1], abar: abar, gamma: gamma}
	n := shape[2]
	dir, window := scanAttrs(s.Node)
	c.recurrenceInfo = recurrenceInfo{
		n: c.heads * n, window: window, direction: dir, size: 2 * c.heads * n, saved: c.heads * n, perHead: n,
		vRe: 0, vIm: -1, state: index(!s.Absent(3), 3),
		xRe: index(s.Node.Out(0) != nil, 0), xIm: -1, stateOut: index(s.Node.Out(1) != nil, 1),
	}
	c.in = kernel.PackBlocks(narrow(gamma), c.heads, n, n)
	if window == 0 {
		return c
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
	c.cut = kernel.PackBlocks(narrow(all), c.heads, n, n)
	return c
}

func (c *dense) matrices(h int) (abar, gamma []float64) {
	n2 := c.perHead * c.perHead
	return c.abar[h*n2 : (h+1)*n2], c.gamma[h*n2 : (h+1)*n2]
}

// multiply sets out to a b for square matrices.
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

// power is the k-th power of a square matrix.
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

func (c *dense) info() *recurrenceInfo { return &c.recurrenceInfo }

func (c *dense) tiled(form string, rows int) tileKernel {
	k := denseScan{c, rows}
	if form == essm.FormChunked {
		return &denseChunk{denseScan: k}
	}
	return k
}

func (c *dense) sequence(form string, length int, history bool) sequenceKernel {
	k := &denseSequence{c: c}
	k.setup(&c.recurrenceInfo, length, history, form == essm.FormFFT)
	return k
}

// denseScan is the recurrence. The inputs go through Γ first, tile by tile, in float32; the state stays in float64. The
// second half of z is scratch.
type denseScan struct {
	c    *dense
	rows int
}

func (k denseScan) bytes() int64 { return 0 }
func (k denseScan) prepare()     {}
func (k denseScan) scratch() int { return k.rows * k.c.n }

// drive is what the inputs of a tile give to the states.
func (k denseScan) drive(in *tileInput, rows int, tmp []float32) []float32 {
	n := k.c.n
	kernel.Heads(tmp, n, in.re, n, rows, k.c.in, 0, false)
	if in.oldRe != nil {
		kernel.Heads(tmp, n, in.oldRe, n, rows, k.c.cut, 0, true)
	}
	return tmp[:rows*n]
}

// part is head h's share of rows.
func (k denseScan) part(x []float32, h int) []float32 {
	if x == nil {
		return nil
	}
	return x[h*k.c.perHead:]
}

func (k denseScan) forward(x, _ []float32, in *tileInput, rows int, z []float64, tmp []float32) {
	g := k.drive(in, rows, tmp)
	n := k.c.perHead
	for h := range k.c.heads {
		a, _ := k.c.matrices(h)
		kernel.DenseForward(k.part(x, h), k.part(g, h), k.c.n, rows, a, z[h*n:(h+1)*n], z[k.c.n+h*n:k.c.n+(h+1)*n])
	}
}

func (k denseScan) backward(x, _ []float32, in *tileInput, rows int, z []float64, tmp []float32, add bool) {
	g := k.drive(in, rows, tmp)
	n := k.c.perHead
	for h := range k.c.heads {
		a, _ := k.c.matrices(h)
		kernel.DenseBackward(k.part(x, h), k.part(g, h), k.c.n, rows, a, z[h*n:(h+1)*n], z[k.c.n+h*n:k.c.n+(h+1)*n], add)
	}
}

// denseChunk multiplies with powers of Ā inside chunks of chunkRows steps.
type denseChunk struct {
	denseScan
	powers []float64 // per head: Ā⁰ … Ā^chunkRows
}

const chunkRows = 8

func (k *denseChunk) bytes() int64 {
	return int64(k.c.heads*(chunkRows+1)*k.c.perHead*k.c.perHead) * 8
}

func (k *denseChunk) prepare() {
	n := k.c.perHead
	k.powers = make([]float64, k.c.heads*(chunkRows+1)*n*n)
	for h := range k.c.heads {
		a, _ := k.c.matrices(h)
		for i := range n {
			k.power(h, 0)[i*n+i] = 1
		}
		for p := 1; p <= chunkRows; p++ {
			multiply(k.power(h, p), a, k.power(h, p-1), n)
		}
	}
}

func (k *denseChunk) power(h, p int) []float64 {
	n2 := k.c.perHead * k.c.perHead
	at := (h*(chunkRows+1) + p) * n2
	return k.powers[at : at+n2]
}

func (k *denseChunk) forward(x, _ []float32, in *tileInput, rows int, z []float64, tmp []float32) {
	g := k.drive(in, rows, tmp)
	n, all := k.c.perHead, k.c.n
	for h := range k.c.heads {
		zh, next := z[h*n:(h+1)*n], z[all+h*n:all+(h+1)*n]
		for lo := 0; lo < rows; lo += chunkRows {
			hi := min(lo+chunkRows, rows)
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

func (k *denseChunk) backward(x, _ []float32, in *tileInput, rows int, z []float64, tmp []float32, add bool) {
	g := k.drive(in, rows, tmp)
	n, all := k.c.perHead, k.c.n
	for h := range k.c.heads {
		zh, next := z[h*n:(h+1)*n], z[all+h*n:all+(h+1)*n]
		for hi := rows; hi > 0; {
			lo := (hi - 1) / chunkRows * chunkRows
			after := func(t int) { // the state that step t sees
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

// denseSequence convolves whole sequences with the matrix-valued kernel, one head at a time, and one row of the kernel at
// a time: all of it would be large.
type denseSequence struct {
	convolver
	c *dense
}

func (k *denseSequence) bytes() int64      { return k.tables() }
func (k *denseSequence) prepare()          {}
func (k *denseSequence) fill(w *workspace) { k.fillTables(w) }
func (k *denseSequence) pieces() int       { return k.c.heads }

func (k *denseSequence) scratch() int {
	n := k.c.perHead
	size := n*(k.past+k.length) + k.length*n + n*k.taps
	if k.fft != nil {
		return size + (n+3)*k.fft.Len()
	}
	return size + k.taps
}

// stepsUnchecked is how many steps are taken before the next look at whether the run was cancelled.
const stepsUnchecked = 64

func (k *denseSequence) run(h int, s *sequence, tmp []float32, state []float64) {
	n, all, cols := k.c.perHead, k.c.n, k.past+k.length
	take := func(n int) (p []float32) {
		p, tmp = tmp[:n], tmp[n:]
		return p
	}
	in, out, taps := take(n*cols), take(n*k.length), take(n*k.taps)
	row, next := state[:n], state[n:2*n]
	for j := range n {
		s.column(in[j*cols:(j+1)*cols], all, h*n+j, false)
	}
	clear(out)
	abar, gamma := k.c.matrices(h)
	if s.z != nil && k.c.window == 0 {
		copy(row, s.z[h*n:(h+1)*n])
		for t := range k.length {
			if t%stepsUnchecked == 0 && s.stopped() {
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
			if s.stopped() {
				return
			}
			k.fft.Forward(spectra[j*size:(j+1)*size], in[j*cols:(j+1)*cols], work, s.w.halted)
		}
	}
	for i := range n {
		// Row i of Āᵗ Γ, from row i of Āᵗ.
		clear(row)
		row[i] = 1
		for t := range k.taps {
			if t%stepsUnchecked == 0 && s.stopped() {
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
			if s.stopped() {
				return
			}
			kj := taps[j*k.taps : (j+1)*k.taps]
			if k.fft == nil {
				k.direct(s, y, in[j*cols:(j+1)*cols], kj, tmp)
				continue
			}
			k.spectrum(spec, kj, work, s.w)
			k.fft.MulAdd(acc, spectra[j*size:(j+1)*size], spec, 1)
		}
		if k.fft != nil {
			k.inverse(y, acc, work, s.w)
		}
	}
	for i := range n {
		setColumn(s.x, out[i*k.length:(i+1)*k.length], all, h*n+i)
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
