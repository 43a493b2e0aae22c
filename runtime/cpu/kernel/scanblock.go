package kernel

import "math/cmplx"

// blockSteps is how many steps a block of a scan has, and blockMost bounds the coefficients of a system that goes by blocks, so
// that their powers stay far from what float32 cannot hold.
const (
	blockSteps = 8
	blockMost  = 2
)

// scanTable is what a scan by blocks needs of a system: of the first states, which come in whole pairs of vectors.
type scanTable struct {
	states, lanes int
	give          []float32 // what an input gives to the state behind its block, laid out as the kernels read it
	re, im        []float64 // the system's power that crosses a block
}

// Pack prepares scans of which only the last state is wanted: they then go by blocks. A block adds up in float32 what its inputs
// give, from zero, while the state crosses it in float64: the sum of a few steps is as exact as inputs are, and what comes
// before it is not rounded. The system must not change afterwards.
func (d *Diagonal) Pack() {
	lanes := scanLanes()
	if lanes == 0 {
		return
	}
	t := &scanTable{lanes: lanes, states: d.N() / (2 * lanes) * 2 * lanes}
	for j := range t.states {
		a := complex(d.ARe[j], d.AIm[j])
		if !(cmplx.Abs(a) <= blockMost) {
			return
		}
		p := power(a, blockSteps)
		t.re, t.im = append(t.re, real(p)), append(t.im, imag(p))
	}
	t.give = make([]float32, 2*blockSteps*t.states)
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

// power is a to the k-th.
func power(a complex128, k int) complex128 {
	p := complex(1, 0)
	for range k {
		p *= a
	}
	return p
}

// scanBlocks advances those states that the table has over as many rows as whole blocks have, and says how many of both.
// Backward scans start at the last row.
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
