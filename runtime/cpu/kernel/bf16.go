package kernel

import "math"

// BF16 is a matrix W (M rows, K columns) of bfloat16 numbers, packed for GemmBF16.
type BF16 struct {
	M, K  int
	plain *Packed  // for the float32 kernels, on processors without products of bfloat16
	pairs []uint32 // pairs of columns, on processors with such products
}

// PackBF16 packs W, whose element (i, k) is w[i*rs+k*cs], rounded to the nearest bfloat16, ties to even.
func PackBF16(w []float32, m, k, rs, cs int) *BF16 {
	p := NewBF16(m, k)
	p.Fill(w, rs, cs)
	return p
}

// NewBF16 returns a matrix of m rows and k columns, for Fill.
func NewBF16(m, k int) *BF16 {
	p := &BF16{M: m, K: k}
	if machine.pairs && k > 0 {
		p.pairs = newPairs(m, k)
	} else {
		p.plain = NewPacked(m, k)
	}
	return p
}

// Fill packs another matrix of the same size, as PackBF16 does, in place.
func (p *BF16) Fill(w []float32, rs, cs int) {
	if p.plain == nil {
		fillPairs(p.pairs, w, p.M, p.K, rs, cs)
		return
	}
	p.plain.Fill(w, rs, cs)
	for i, v := range p.plain.data {
		p.plain.data[i] = roundBF16(v)
	}
}

// Bytes returns the size of the packed matrix.
func (p *BF16) Bytes() int64 {
	if p.plain != nil {
		return p.plain.Bytes()
	}
	return int64(len(p.pairs)) * 4
}

// roundBF16 returns the nearest bfloat16, ties to even; a quiet NaN for NaN.
func roundBF16(x float32) float32 {
	if x != x {
		return math.Float32frombits(0x7fc00000)
	}
	b := math.Float32bits(x)
	return math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff)
}

// BF16Words returns the number of float32 that RoundBF16 writes for k numbers.
func BF16Words(k int) int {
	if machine.pairs {
		return (k + 1) / 2
	}
	return k
}

// RoundBF16 rounds n vectors of k numbers to bfloat16, for GemmBF16.
func RoundBF16(dst, x []float32, n, k int) {
	if machine.pairs {
		roundPairs(dst, x, n, k)
		return
	}
	x = x[:n*k]
	for i := roundBF16Wide(dst, x); i < len(x); i++ {
		dst[i] = roundBF16(x[i])
	}
}

// GemmBF16 computes y = x Wᵀ + bias for rows of x that RoundBF16 has written, of K numbers each. Rows of x have
// stride ldx, and rows of y ldy. Products are exact, and are summed in float32. With AVX512_BF16, subnormal numbers
// count as zeros. bias has M numbers, or is nil.
func GemmBF16(y []float32, ldy int, x []float32, ldx int, rows int, w *BF16, bias []float32) {
	if w.plain != nil {
		Gemm(y, ldy, x, ldx, rows, w.plain, bias, false)
		return
	}
	gemmPairs(y, ldy, x, ldx, rows, w, bias)
}
