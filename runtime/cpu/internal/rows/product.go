package rows

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// packedKey and blocksKey identify packed constants, which the programs of a model share.
type (
	packedKey struct {
		t            *tensor.Tensor
		m, k, rs, cs int
		alpha        float64 // factor of the numbers
	}
	blocksKey struct {
		t       *tensor.Tensor
		n, m, k int
	}
)

// packedInput returns w, the numbers of constant input i times alpha, packed for products. Where w is nil they are the
// constant's own.
func packedInput(s *lowering.Step, i int, w func() []float32, alpha float64, m, k, rs, cs int) *kernel.Packed {
	key := packedKey{s.In[i].Const, m, k, rs, cs, alpha}
	return record.Of(s).Shared.Get(key, func() any {
		defer s.Release(i)
		if w == nil {
			return packed(s, i, m, k, rs, cs)
		}
		return kernel.Pack(w(), m, k, rs, cs)
	}).(*kernel.Packed)
}

// packed packs constant input i. A lazy one is read in parts, so that there is no second copy of it.
func packed(s *lowering.Step, i, m, k, rs, cs int) *kernel.Packed {
	t := s.In[i].Const
	whole := t.Len() == m*k && (rs == k && cs == 1 || rs == 1 && cs == m)
	if d := t.DType(); !t.Lazy() || !whole || d != tensor.Float32 && d != tensor.Float64 {
		return kernel.Pack(s.Constant(i), m, k, rs, cs)
	}
	if u := t.Turned(); u != nil {
		if t = u; cs == 1 {
			rs, cs = 1, m
		} else {
			rs, cs = k, 1
		}
	}
	p, err := kernel.PackParts(m, k, rs, cs, t.PeekFloat32s)
	if err != nil {
		panic(&tensor.SourceError{Err: err})
	}
	return p
}

// productOf returns a row kernel for x Wᵀ + b. W is m × k, with element (i, j) at i*rs+j*cs of w, which returns the
// numbers of constant input 1, times alpha, if they are not packed yet. Where w is nil they are the constant's own.
func productOf(s *lowering.Step, w func() []float32, alpha float64, m, k, rs, cs int, bias []float32) record.RowMaker {
	if low := lowProduct(s, w, alpha, 1, m, k, rs, cs, 1, bias); low != nil {
		return low
	}
	p := packedInput(s, 1, w, alpha, m, k, rs, cs)
	return func(in [][]int, out []int) *record.RowOp {
		if !lowering.SameRows(in[0], out) || in[0][len(in[0])-1] != p.K || out[len(out)-1] != p.M {
			return nil
		}
		return &record.RowOp{Operands: record.First, Parts: longProduct([]*kernel.Packed{p}, p.M, p.K, 1, bias),
			Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				kernel.Gemm(y, p.M, x[0], p.K, rows, p, bias, false)
			}}
	}
}

func scaled(v []float32, f float64) []float32 {
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = float32(f * float64(x))
	}
	return w
}

// ProductFlops returns the work of a row of a product with constants, in floating-point operations.
func ProductFlops(s *lowering.Step) float64 {
	weights := 0
	for _, v := range s.In {
		if v != nil && v.Const != nil {
			weights += v.Const.Len()
		}
	}
	return 2 * float64(weights)
}
