package kernel

import "math/cmplx"

// blockSteps is the number of steps in a block of a scan. blockMost is the maximum of the coefficients a of a system
// that is computed in blocks, so that their powers fit float32.
const (
	blockSteps = 8
	blockMost  = 2
)

// scanTable holds the coefficients of a scan in blocks, for the first states, a multiple of two vectors.
type scanTable struct {
	states, lanes int
	give          []float32 // factors from inputs to the state after their block, in the order of the kernels
	re, im        []float64 // a^blockSteps
}

// Pack prepares the system for scans of which only the last state is wanted. They are computed in blocks: the
// contributions of a block's inputs are summed in float32, and the state crosses the block in float64. The sum of a
// few steps is as exact as the inputs, and the state is not rounded. When the system has changed, it must be packed again,
// which uses the same memory.
func (d *Diagonal) Pack() {
	lanes := machine.scan
	if lanes == 0 {
		return
	}
	states := d.N() / (2 * lanes) * 2 * lanes
	d.table = nil
	for j := range states {
		if !(cmplx.Abs(complex(d.ARe[j], d.AIm[j])) <= blockMost) {
			return
		}
	}
	if d.kept == nil {
		d.kept = &scanTable{lanes: lanes, states: states, give: make([]float32, 2*blockSteps*states),
			re: make([]float64, states), im: make([]float64, states)}
	}
	t := d.kept
	for j := range states {
		p := power(complex(d.ARe[j], d.AIm[j]), blockSteps)
		t.re[j], t.im[j] = real(p), imag(p)
	}
	for j := range t.states {
		a, p := complex(d.ARe[j], d.AIm[j]), complex(d.BRe[j], d.BIm[j])
		at := j/lanes*lanes*2*blockSteps + j%lanes
		for k := blockSteps - 1; k >= 0; k-- {
			t.give[at+2*k*lanes], t.give[at+(2*k+1)*lanes] = float32(real(p)), float32(imag(p))
			p *= a
		}
	}
	d.table = t
}

// power returns a to the power k.
func power(a complex128, k int) complex128 {
	p := complex(1, 0)
	for range k {
		p *= a
	}
	return p
}

// scanBlocks advances the states of the table over whole blocks. It returns the number of states and of rows. Backward
// scans start at the last row.
func scanBlocks(d *Diagonal, v []float32, rows int, zr, zi []float64, backward bool) (states, done int) {
	t, blocks := d.table, rows/blockSteps
	if t == nil || t.states == 0 || blocks == 0 {
		return 0, 0
	}
	n := d.N()
	stride, first := n, 0
	if backward {
		stride, first = -n, (rows-1)*n
	}
	_, _, _ = v[rows*n-1], zr[t.states-1], zi[t.states-1]
	for j := 0; j < t.states; j += 2 * t.lanes {
		scanBlock(t.lanes, blocks, &v[first+j], stride, &t.give[j*2*blockSteps], &t.re[j], &t.im[j], &zr[j], &zi[j])
	}
	return t.states, blocks * blockSteps
}
