package cpu

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
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
func packedInput(s *lowering.Step, i int, w []float32, alpha float64, m, k, rs, cs int) *kernel.Packed {
	key := packedKey{s.In[i].Const, m, k, rs, cs, alpha}
	return of(s).shared.Get(key, func() any { return kernel.Pack(w, m, k, rs, cs) }).(*kernel.Packed)
}

// rowLinear is x Wᵀ + b.
func rowLinear(s *lowering.Step) rowMaker {
	w, bias := s.Constant(1), s.Constant(2)
	if w == nil || bias == nil && !s.Absent(2) {
		return nil
	}
	shape := s.ConstShape(1)
	return productOf(s, w, 1, shape[0], shape[1], shape[1], 1, bias)
}

// product is a row kernel for x Wᵀ + b, where w, whose element (i, j) is at i*rs+j*cs, is input 1 times alpha.
func productOf(s *lowering.Step, w []float32, alpha float64, m, k, rs, cs int, bias []float32) rowMaker {
	if low := lowProduct(s, w, alpha, 1, m, k, rs, cs, 1, bias); low != nil {
		return low
	}
	p := packedInput(s, 1, w, alpha, m, k, rs, cs)
	return func(in [][]int, out []int) *rowOp {
		if !lowering.SameRows(in[0], out) || in[0][len(in[0])-1] != p.K || out[len(out)-1] != p.M {
			return nil
		}
		return &rowOp{operands: first, parts: longProduct([]*kernel.Packed{p}, p.M, p.K, 1, bias), run: func(y []float32, x [][]float32, rows int) {
			kernel.Gemm(y, p.M, x[0], p.K, rows, p, bias, false)
		}}
	}
}

// rowMatMul is x W with a constant matrix.
func rowMatMul(s *lowering.Step) rowMaker {
	w := s.Constant(1)
	if w == nil || len(s.ConstShape(1)) != 2 {
		return nil
	}
	shape := s.ConstShape(1)
	return productOf(s, w, 1, shape[1], shape[0], 1, shape[1], nil)
}

// rowGemm is x W or x Wᵀ, plus a constant vector.
func rowGemm(s *lowering.Step) rowMaker {
	a := s.Node.Attrs
	w, c := s.Constant(1), s.Constant(2)
	if w == nil || len(s.ConstShape(1)) != 2 || c == nil && !s.Absent(2) || a.Bool("transA", false) {
		return nil
	}
	shape := s.ConstShape(1)
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
		case n == m && s.ConstShape(2)[len(s.ConstShape(2))-1] == m:
			bias = c
		default:
			return nil
		}
		if beta != 1 {
			bias = scaled(bias, beta)
		}
	}
	return productOf(s, w, alpha, m, k, rs, cs, bias)
}

func scaled(v []float32, f float64) []float32 {
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = float32(f * float64(x))
	}
	return w
}

// heads packs a constant (C, S, p, q) as C·S blocks.
func heads(s *lowering.Step, i int) (w *kernel.Blocks, perChannel int) {
	v := s.Constant(i)
	if v == nil || len(s.ConstShape(i)) != 4 {
		return nil, 0
	}
	shape := s.ConstShape(i)
	key := blocksKey{s.In[i].Const, shape[0] * shape[1], shape[2], shape[3]}
	return of(s).shared.Get(key, func() any { return kernel.PackBlocks(v, key.n, key.m, key.k) }).(*kernel.Blocks), shape[1]
}

// rowHeadLinear is the block-diagonal product.
func rowHeadLinear(s *lowering.Step) rowMaker {
	if low := lowHeads(s); low != nil {
		return low
	}
	w, perChannel := heads(s, 1)
	if w == nil || w.N == 0 {
		return nil
	}
	var flat []float32
	if w.M == 1 && w.K == 1 {
		flat = s.Constant(1)
	}
	return func(in [][]int, out []int) *rowOp {
		if !lowering.SameRows(in[0], out) {
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
func rowHeadScale(s *lowering.Step) rowMaker {
	d := s.Constant(1)
	if d == nil {
		return nil
	}
	return func(in [][]int, out []int) *rowOp {
		if !lowering.SameRows(in[0], out) {
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
