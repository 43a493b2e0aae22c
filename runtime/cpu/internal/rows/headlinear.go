package rows

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{
		Op:    "essm.HeadLinear",
		Row:   record.RowKind{Make: rowHeadLinear, Constant: []int{1}},
		Fused: fusedScale,
		Flops: ProductFlops,
	})
}

// heads packs fixed input i, of shape (C, S, p, q), as C·S blocks. It also returns S.
func heads(s *lowering.Step, i int) (w *kernel.Blocks, perChannel int) {
	if s.Fixed(i) == nil || len(s.ConstShape(i)) != 4 {
		return nil, 0
	}
	shape := s.ConstShape(i)
	key := blocksKey{s.Fixed(i), shape[0] * shape[1], shape[2], shape[3]}
	return record.Keep(s, []int{i}, key, func() *kernel.Blocks { return kernel.NewBlocks(key.n, key.m, key.k) },
		func(b *kernel.Blocks) {
			defer s.Release(i)
			b.Fill(record.Numbers(s, i))
		}), shape[1]
}

// rowHeadLinear computes a block-diagonal product.
func rowHeadLinear(s *lowering.Step) record.RowMaker {
	if low := lowHeads(s); low != nil {
		return low
	}
	w, perChannel := heads(s, 1)
	if w == nil || w.N == 0 {
		return nil
	}
	var flat []float32
	if w.M == 1 && w.K == 1 {
		flat = record.Numbers(s, 1)
	}
	return func(in [][]int, out []int) *record.RowOp {
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
		if w.M == 1 && w.K == 1 { // heads of one feature: a factor per feature
			return &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				scale(c, y, x[0], rows, flat, g)
			}}
		}
		op := &record.RowOp{Operands: record.First, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			kernel.Heads(y, m, x[0], g, rows, w, shared, false)
		}}
		if blocks := w.Packed(); blocks != nil {
			op.Parts = longProduct(blocks, m, g, g/w.K, nil)
		}
		return op
	}
}
