package kernel

import "math"

// BF16 is a matrix W (M rows, K columns) of bfloat16 numbers, laid out for GemmBF16.
type BF16 struct {
	M, K   int
	panel  int // rows of W that lie side by side; 1 for the portable kernel, which has row after row
	groups int // of four columns; the last one is filled up with zeros
	data   []uint16
}

// PackBF16 rounds W, whose element (i, k) is w[i*rs+k*cs], to the nearest bfloat16, ties to even.
func PackBF16(w []float32, m, k, rs, cs int) *BF16 {
	p := &BF16{M: m, K: k, panel: 1, groups: groups(k)}
	if wide() {
		p.panel = narrowPanel
	}
	p.data = make([]uint16, (m+p.panel-1)/p.panel*p.panel*p.groups*4)
	for i := range m {
		for j := range k {
			p.data[p.at(i, j)] = uint16(math.Float32bits(roundBF16(w[i*rs+j*cs])) >> 16)
		}
	}
	return p
}

// at is where element (i, j) lies: in panels, rows i and i+8 side by side, so that shifts widen a vector to two.
func (p *BF16) at(i, j int) int {
	if p.panel == 1 {
		return i*p.groups*4 + j
	}
	return i/p.panel*p.panel*p.groups*4 + j*p.panel + i%8*2 + i%p.panel/8
}

// Bytes is the memory that the packed matrix takes.
func (p *BF16) Bytes() int64 { return int64(len(p.data)) * 2 }

// roundBF16 is the nearest bfloat16, ties to even. NaN becomes the quiet one.
func roundBF16(x float32) float32 {
	if x != x {
		return math.Float32frombits(0x7fc00000)
	}
	b := math.Float32bits(x)
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// BF16Words is how many numbers of 32 bits RoundBF16 writes for k numbers.
func BF16Words(k int) int { return 4 * groups(k) }

// RoundBF16 rounds n vectors of k numbers to bfloat16, for GemmBF16.
func RoundBF16(dst, x []float32, n, k int) {
	words := BF16Words(k)
	for i := range n {
		src, to := x[i*k:(i+1)*k], dst[i*words:(i+1)*words]
		done := roundBF16Wide(to, src)
		for j, v := range src[done:] {
			to[done+j] = roundBF16(v)
		}
		clear(to[k:])
	}
}

// GemmBF16 computes y = x Wᵀ + bias for rows of x that RoundBF16 wrote, with K numbers each, and that lie ldx apart, and rows of
// y that lie ldy apart. Products are exact and summed up in float32, from bias on, in the order of K. bias has M numbers, or
// is nil.
func GemmBF16(y []float32, ldy int, x []float32, ldx int, rows int, w *BF16, bias []float32) {
	if w.panel > 1 && rows > 0 && w.M > 0 && w.K > 0 {
		gemmBF16Wide(y, ldy, x, ldx, rows, w, bias)
		return
	}
	k := w.groups * 4
	for r := range rows {
		row := x[r*ldx : r*ldx+k]
		out := y[r*ldy : r*ldy+w.M]
		for i := range out {
			s := float32(0)
			if bias != nil {
				s = bias[i]
			}
			for j, v := range w.data[i*k : i*k+len(row)] {
				s += row[j] * math.Float32frombits(uint32(v)<<16)
			}
			out[i] = s
		}
	}
}
