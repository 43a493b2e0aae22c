package rows

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// partFlops is the approximate work of a part of a long product: some tenths of a millisecond.
const partFlops = record.TileFlops / 2

// longProduct divides a block-diagonal product into parts, if even the smallest tile would take too long, and
// returns nil otherwise. Block i of y is blocks[i] times block i%shared of x. The rows of y and x have strides ldy
// and ldx.
func longProduct(blocks []*kernel.Packed, ldy, ldx, shared int, bias []float32) []record.RowFunc {
	m, k := blocks[0].M, blocks[0].K
	perRow := 2 * record.SmallestTile * k
	if k == 0 || len(blocks)*m <= record.TileFlops/perRow {
		return nil
	}
	var parts []record.RowFunc
	at := func(i int) []float32 { // the bias of block i
		if bias == nil {
			return nil
		}
		return bias[i*m : (i+1)*m]
	}
	if most := partFlops / perRow / m; most > 1 { // blocks that are small
		for lo := 0; lo < len(blocks); lo += most {
			hi := min(lo+most, len(blocks))
			parts = append(parts, func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				for i := lo; i < hi; i++ {
					kernel.Gemm(y[i*m:], ldy, x[0][i%shared*k:], ldx, rows, blocks[i], at(i), false)
				}
			})
		}
		return parts
	}
	for i, b := range blocks {
		to, from := i*m, i%shared*k
		for _, p := range b.Cut(partFlops / perRow) {
			var add []float32
			if bias != nil {
				add = bias[to : to+p.M]
			}
			at := to
			parts = append(parts, func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				kernel.Gemm(y[at:], ldy, x[0][from:], ldx, rows, p, add, false)
			})
			to += p.M
		}
	}
	return parts
}
