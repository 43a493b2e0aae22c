package rows

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

type (
	int8Weights struct{ *kernel.Int8 }
	bf16Weights struct{ *kernel.BF16 }
)

func (w int8Weights) Multiply(y []float32, ldy int, x []float32, ldx, rows int, bias []float32) {
	kernel.GemmInt8(y, ldy, x, ldx, rows, w.Int8, bias)
}

func (w bf16Weights) Multiply(y []float32, ldy int, x []float32, ldx, rows int, bias []float32) {
	kernel.GemmBF16(y, ldy, x, ldx, rows, w.BF16, bias)
}

var LowPrecisions = map[tensor.DType]*record.LowPrecision{
	tensor.Int8: {Name: "int8", Most: kernel.MaxInt8, Words: kernel.Int8Words, Round: kernel.QuantizeInt8,
		Make: func(m, k int) record.LowWeights { return int8Weights{kernel.NewInt8(m, k)} }},
	tensor.BFloat16: {Name: "bf16", Most: 1 << 24, Words: kernel.BF16Words, Round: kernel.RoundBF16,
		Make: func(m, k int) record.LowWeights { return bf16Weights{kernel.NewBF16(m, k)} }},
}

// lowProductOf sets Kinds.Lowered of a step with n matrices of m rows and k columns and an input of parts·k features,
// if low precision was asked for. It reports whether the product is computed in low precision.
func lowProductOf(s *lowering.Step, n, m, k, parts int) bool {
	p := LowPrecisions[record.Of(s).Products]
	if p == nil {
		return false
	}
	l := &record.LowStep{P: p, M: m, K: k, Parts: parts, Input: len(s.In), Weights: int64(n) * int64(m) * int64(k)}
	record.Of(s).Lowered = l
	t, ok := s.In[0].Type.(*ir.TensorType)
	switch small := lowering.SmallProduct(m, k); {
	case small != "":
		l.Why = small
	case k > p.Most:
		l.Why = fmt.Sprintf("matrices have %d columns, more than %d", k, p.Most)
	case !ok || t.Elem != tensor.Float32 || t.NoRank || len(t.Shape) == 0 ||
		!t.Shape[len(t.Shape)-1].Equal(ir.Const(int64(parts*k))):
		l.Why = "the width of its input is not known before the run"
	}
	return l.Why == ""
}

// lowKey identifies packed matrices, which the programs of a model share.
type lowKey struct {
	packedKey
	n int
	p *record.LowPrecision
}

// lowProduct returns a row kernel for n products in low precision, or nil for products that stay in float32. w has n
// matrices, one after the other, with element (i, j) of each at i*rs+j*cs.
func lowProduct(s *lowering.Step, w matrix, n, m, k, rs, cs, parts int, bias []float32) record.RowMaker {
	if !lowProductOf(s, n, m, k, parts) {
		return nil
	}
	l := record.Of(s).Lowered
	key := lowKey{packedKey{s.Fixed(1), w.also, m, k, rs, cs, w.alpha}, n, l.P}
	long, rows := lowRows(n, m, k)
	all := record.Keep(s, append(w.inputs, 1), key, func() (all []lowPart) {
		for i := range n {
			for lo := 0; lo < m; lo += rows {
				count := min(rows, m-lo)
				all = append(all, lowPart{l.P.Make(count, k), i, lo, count})
			}
		}
		return all
	}, func(all []lowPart) {
		defer s.Release(1)
		w := w.numbers(s)
		for i := range all {
			p := &all[i]
			p.Fill(w[p.matrix*m*k+p.from*rs:], rs, cs)
		}
	})
	words := l.P.Words(k)
	return func(in [][]int, out []int) *record.RowOp {
		if !lowering.SameRows(in[0], out) || in[0][len(in[0])-1] != parts*k || out[len(out)-1] != n*m {
			return nil
		}
		multiply := func(p *lowPart, y []float32, x [][]float32, rows int) {
			add := bias
			if bias != nil {
				add = bias[p.from : p.from+p.rows]
			}
			p.Multiply(y[p.matrix*m+p.from:], n*m, x[l.Input][p.matrix%parts*words:], parts*words, rows, add)
		}
		op := &record.RowOp{Operands: []int{l.Input}, Run: func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			for i := range all {
				multiply(&all[i], y, x, rows)
			}
		}}
		for i := range all {
			if long {
				op.Parts = append(op.Parts, func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
					multiply(&all[i], y, x, rows)
				})
			}
		}
		return op
	}
}

// lowPart is a range of the rows of a matrix.
type lowPart struct {
	record.LowWeights
	matrix, from, rows int
}

// lowRows reports whether even the smallest tile takes long to multiply with n matrices of m rows and k columns. rows
// is the number of rows of a matrix that are packed together: all, or, if it takes long, whole panels.
func lowRows(n, m, k int) (long bool, rows int) {
	const panels = 96 // a multiple of the rows of a panel, of every variant
	perRow := 2 * record.SmallestTile * k
	if n*m <= record.TileFlops/perRow {
		return false, m
	}
	return true, max(1, partFlops/perRow/panels) * panels
}

// lowHeads returns the row kernel of a HeadLinear in low precision; nil for one that stays in float32.
func lowHeads(s *lowering.Step) record.RowMaker {
	if s.Fixed(1) == nil || len(s.ConstShape(1)) != 4 {
		return nil
	}
	shape := s.ConstShape(1)
	n, m, k := shape[0]*shape[1], shape[2], shape[3]
	if t, ok := s.In[0].Type.(*ir.TensorType); ok && !t.NoRank && len(t.Shape) > 0 &&
		t.Shape[len(t.Shape)-1].Equal(ir.Const(int64(shape[1]*k))) {
		return lowProduct(s, plain, n, m, k, k, 1, shape[1], nil) // channels share the input
	}
	return lowProduct(s, plain, n, m, k, k, 1, n, nil)
}
