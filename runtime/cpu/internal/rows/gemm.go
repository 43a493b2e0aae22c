package rows

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Gemm", Row: record.RowKind{Make: rowGemm, Constant: []int{1, 2}},
		Flops: ProductFlops})
}

// rowGemm computes x W or x Wᵀ, plus a constant vector.
func rowGemm(s *lowering.Step) record.RowMaker {
	a := s.Node.Attrs
	c := record.Numbers(s, 2)
	if len(s.ConstShape(1)) != 2 || a.Bool("transA", false) {
		return nil
	}
	shape := s.ConstShape(1)
	m, k, rs, cs := shape[1], shape[0], 1, shape[1]
	if a.Bool("transB", false) {
		m, k, rs, cs = shape[0], shape[1], shape[1], 1
	}
	alpha, beta := a.Float("alpha", 1), a.Float("beta", 1)
	var bias []float32
	switch n := len(c); {
	case c == nil:
	case n != 1 && (n != m || s.ConstShape(2)[len(s.ConstShape(2))-1] != m):
		return nil
	case n == m && beta == 1:
		bias = c
	default:
		bias = record.Keep(s, []int{2}, biasKey{s.Fixed(2), m, beta}, func() []float32 { return make([]float32, m) },
			func(b []float32) {
				for i := range b {
					b[i] = float32(beta * float64(c[i%len(c)]))
				}
			})
	}
	return productOf(s, matrix{alpha: alpha}, m, k, rs, cs, bias)
}

// biasKey identifies a summand times beta, as a number per feature.
type biasKey struct {
	t    *tensor.Tensor
	m    int
	beta float64
}
