package rows

import (
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
	c := s.Constant(2)
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
	var w func() []float32
	if alpha != 1 {
		w = func() []float32 { return scaled(s.Constant(1), alpha) }
	}
	return productOf(s, w, alpha, m, k, rs, cs, bias)
}
