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
		also         [2]*tensor.Tensor // others that the numbers follow from
		m, k, rs, cs int
		alpha        float64 // factor of the numbers
	}
	blocksKey struct {
		t       *tensor.Tensor
		n, m, k int
	}
)

// matrix is the numbers of a product's matrix: those of fixed input 1 times alpha, or else what unpack returns.
type matrix struct {
	alpha  float64
	unpack func() []float32  // nil: the input's numbers
	inputs []int             // beside 1, that unpack reads
	also   [2]*tensor.Tensor // their tensors
}

// plain is a matrix of the input's own numbers.
var plain = matrix{alpha: 1}

// numbers returns all numbers of the matrix.
func (w *matrix) numbers(s *lowering.Step) []float32 {
	switch {
	case w.unpack != nil:
		return w.unpack()
	case w.alpha != 1:
		return scaled(record.Numbers(s, 1), w.alpha)
	}
	return record.Numbers(s, 1)
}

// packed returns the matrix, packed for products.
func (w *matrix) packed(s *lowering.Step, m, k, rs, cs int) *kernel.Packed {
	key := packedKey{s.Fixed(1), w.also, m, k, rs, cs, w.alpha}
	return record.Keep(s, append(w.inputs, 1), key, func() *kernel.Packed { return kernel.NewPacked(m, k) },
		func(p *kernel.Packed) {
			defer s.Release(1)
			if w.unpack != nil || w.alpha != 1 || !packParts(p, s.Fixed(1), m, k, rs, cs) {
				p.Fill(w.numbers(s), rs, cs)
			}
		})
}

// packParts reads a lazy matrix in parts, so that there is no second copy of it. It returns false for others.
func packParts(p *kernel.Packed, t *tensor.Tensor, m, k, rs, cs int) bool {
	whole := t.Len() == m*k && (rs == k && cs == 1 || rs == 1 && cs == m)
	if d := t.DType(); !t.Lazy() || !whole || d != tensor.Float32 && d != tensor.Float64 {
		return false
	}
	if u := t.Turned(); u != nil {
		if t = u; cs == 1 {
			rs, cs = 1, m
		} else {
			rs, cs = k, 1
		}
	}
	if err := p.FillParts(rs, cs, t.PeekFloat32s); err != nil {
		panic(&tensor.SourceError{Err: err})
	}
	return true
}

// productOf returns a row kernel for x Wᵀ + b. W is m × k, with element (i, j) at i*rs+j*cs of the numbers of w.
func productOf(s *lowering.Step, w matrix, m, k, rs, cs int, bias []float32) record.RowMaker {
	if low := lowProduct(s, w, 1, m, k, rs, cs, 1, bias); low != nil {
		return low
	}
	p := w.packed(s, m, k, rs, cs)
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
	multiply(w, v, f)
	return w
}

// multiply sets w to the numbers of v times f.
func multiply(w, v []float32, f float64) {
	for i, x := range v {
		w[i] = float32(f * float64(x))
	}
}

// ProductFlops returns the work of a row of a product with constants, in floating-point operations.
func ProductFlops(s *lowering.Step) float64 {
	weights := 0
	for _, v := range s.In {
		if v != nil && v.Fixed() != nil {
			weights += v.Fixed().Len()
		}
	}
	return 2 * float64(weights)
}
