package cpu

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// groupPass computes the outputs of a region whose sequences are short, as where many streams step at once: the rows of
// several samples go through each row kernel together, so that weights pass through the cache once for all of them. The recurrence
// takes the samples one by one. Kernels treat rows by themselves, so answers are those of the samples alone.
type groupPass struct{ g *region }

// groupSize is how many samples are computed together: as many as a tile has room for, where each fits in one and looks back
// only. It follows from shapes alone.
func (g *region) groupSize(flopsPerRow float64) int {
	c := g.recurrence
	if c == nil || g.tiles != 1 || c.kernel == nil || c.Direction != essm.Forward || c.Window > 0 || g.pipeline != nil {
		return 1
	}
	return max(1, min(g.batch, record.TileSize(flopsPerRow, g.batch*g.length)/g.length))
}

// Do computes one group.
func (p *groupPass) Do(w *worker, k int) {
	g := p.g
	first := k * g.group
	count := min(g.group, g.batch-first)
	for _, i := range g.all[:g.mid] {
		g.call(w, i, first, 0, count*g.length)
	}
	w.Node = g.recurrence.src
	for i := range count {
		w.local = i * g.length
		if !g.recurrence.tile(w, first+i, 0, 0, g.length) {
			break
		}
	}
	w.local = 0
	for _, i := range g.all[g.mid:] {
		g.call(w, i, first, 0, count*g.length)
	}
}
