package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// packedKey and blocksKey name packed constants, which the programs of one model share.
type (
	packedKey struct {
		t            *tensor.Tensor
		m, k, rs, cs int
		alpha        float64 // by which the numbers are multiplied
	}
	blocksKey struct {
		t       *tensor.Tensor
		n, m, k int
	}
)

// packed is the constant input i, whose numbers times alpha are w, packed for products.
func (s *step) packed(i int, w []float32, alpha float64, m, k, rs, cs int) *kernel.Packed {
	key := packedKey{s.in[i].konst, m, k, rs, cs, alpha}
	return of(s).shared.Get(key, func() any { return kernel.Pack(w, m, k, rs, cs) }).(*kernel.Packed)
}

// rowLinear is x Wᵀ + b.
func rowLinear(s *step) rowMaker {
	w, bias := s.constant(1), s.constant(2)
	if w == nil || bias == nil && !s.absent(2) {
		return nil
	}
	shape := s.constShape(1)
	return s.product(w, 1, shape[0], shape[1], shape[1], 1, bias)
}

// product is a row kernel for x Wᵀ + b, where w, whose element (i, j) is at i*rs+j*cs, is input 1 times alpha.
func (s *step) product(w []float32, alpha float64, m, k, rs, cs int, bias []float32) rowMaker {
	if low := s.lowProduct(w, alpha, 1, m, k, rs, cs, 1, bias); low != nil {
		return low
	}
	p := s.packed(1, w, alpha, m, k, rs, cs)
	return func(in [][]int, out []int) *rowOp {
		if !sameRows(in[0], out) || in[0][len(in[0])-1] != p.K || out[len(out)-1] != p.M {
			return nil
		}
		return &rowOp{operands: first, parts: longProduct([]*kernel.Packed{p}, p.M, p.K, 1, bias), run: func(y []float32, x [][]float32, rows int) {
			kernel.Gemm(y, p.M, x[0], p.K, rows, p, bias, false)
		}}
	}
}

// rowMatMul is x W with a constant matrix.
func rowMatMul(s *step) rowMaker {
	w := s.constant(1)
	if w == nil || len(s.constShape(1)) != 2 {
		return nil
	}
	shape := s.constShape(1)
	return s.product(w, 1, shape[1], shape[0], 1, shape[1], nil)
}

// rowGemm is x W or x Wᵀ, plus a constant vector.
func rowGemm(s *step) rowMaker {
	a := s.node.Attrs
	w, c := s.constant(1), s.constant(2)
	if w == nil || len(s.constShape(1)) != 2 || c == nil && !s.absent(2) || a.Bool("transA", false) {
		return nil
	}
	shape := s.constShape(1)
	m, k, rs, cs := shape[1], shape[0], 1, shape[1]
	if a.Bool("transB", false) {
		m, k, rs, cs = shape[0], shape[1], shape[1], 1
	}
	alpha, beta := a.Float("alpha", 1), a.Float("beta", 1)
	if alpha != 1 {
		w = scaled(w, alpha)
	}
	var bias []float32
	if c != nil {
		switch n := len(c); {
		case n == 1:
			bias = make([]float32, m)
			for i := range bias {
				bias[i] = c[0]
			}
		case n == m && s.constShape(2)[len(s.constShape(2))-1] == m:
			bias = c
		default:
			return nil
		}
		if beta != 1 {
			bias = scaled(bias, beta)
		}
	}
	return s.product(w, alpha, m, k, rs, cs, bias)
}

func scaled(v []float32, f float64) []float32 {
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = float32(f * float64(x))
	}
	return w
}

// heads packs a constant (C, S, p, q) as C·S blocks.
func heads(s *step, i int) (w *kernel.Blocks, perChannel int) {
	v := s.constant(i)
	if v == nil || len(s.constShape(i)) != 4 {
		return nil, 0
	}
	shape := s.constShape(i)
	key := blocksKey{s.in[i].konst, shape[0] * shape[1], shape[2], shape[3]}
	return of(s).shared.Get(key, func() any { return kernel.PackBlocks(v, key.n, key.m, key.k) }).(*kernel.Blocks), shape[1]
}

// rowHeadLinear is the block-diagonal product.
func rowHeadLinear(s *step) rowMaker {
	if low := s.lowHeads(); low != nil {
		return low
	}
	w, perChannel := heads(s, 1)
	if w == nil || w.N == 0 {
		return nil
	}
	var flat []float32
	if w.M == 1 && w.K == 1 {
		flat = s.constant(1)
	}
	return func(in [][]int, out []int) *rowOp {
		if !sameRows(in[0], out) {
			return nil
		}
		g, m := in[0][len(in[0])-1], out[len(out)-1]
		shared := 0
		switch {
		case g == w.N*w.K:
		case g == perChannel*w.K:
			shared = perChannel
		default:
			return nil
		}
		if w.M == 1 && w.K == 1 { // as many heads as features: a product per feature
			return &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
				kernel.Scale(y, x[0], rows, flat, g)
			}}
		}
		op := &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
			kernel.Heads(y, m, x[0], g, rows, w, shared, false)
		}}
		if blocks := w.Packed(); blocks != nil {
			op.parts = longProduct(blocks, m, g, g/w.K, nil)
		}
		return op
	}
}

// rowHeadScale multiplies each feature of each channel.
func rowHeadScale(s *step) rowMaker {
	d := s.constant(1)
	if d == nil {
		return nil
	}
	return func(in [][]int, out []int) *rowOp {
		if !sameRows(in[0], out) {
			return nil
		}
		f := in[0][len(in[0])-1]
		if f == 0 || len(d)%f != 0 || out[len(out)-1] != len(d) {
			return nil
		}
		return &rowOp{operands: first, run: func(y []float32, x [][]float32, rows int) {
			kernel.Scale(y, x[0], rows, d, f)
		}}
	}
}
