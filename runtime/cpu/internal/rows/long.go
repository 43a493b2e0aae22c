package rows

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// partFlops is about what a part of a long product takes at once: some tenths of a millisecond.
const partFlops = record.TileFlops / 2

// longProduct cuts a block-diagonal product, of which even the smallest tile takes too long, into parts: block i of y is
// blocks[i] times block i of x, modulo shared. It gives nil where the product is short. y and x have rows of ldy and ldx.
func longProduct(blocks []*kernel.Packed, ldy, ldx, shared int, bias []float32) []record.RowFunc {
	m, k := blocks[0].M, blocks[0].K
	perRow := 2 * record.SmallestTile * k
	if k == 0 || len(blocks)*m <= record.TileFlops/perRow {
		return nil
	}
	var parts []record.RowFunc
	for i, b := range blocks {
		to, from := i*m, i%shared*k
		for _, p := range b.Cut(partFlops / perRow) {
			var add []float32
			if bias != nil {
				add = bias[to : to+p.M]
			}
			at := to
			parts = append(parts, func(y []float32, x [][]float32, rows int) {
				kernel.Gemm(y[at:], ldy, x[0][from:], ldx, rows, p, add, false)
			})
			to += p.M
		}
	}
	return parts
}
