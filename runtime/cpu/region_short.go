package cpu

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// shortPass computes the outputs of a region with short sequences, such as the steps of many streams at once. The
// rows of several samples pass through each row kernel together, so that weights are read into the cache once for
// all of them. The recurrence processes the samples one by one. Kernels treat each row separately, so a sample's
// answers do not depend on the others.
type shortPass struct{ g *region }

// samplesPerItem returns the number of samples that are computed together: as many as fit in a tile, if each fits in
// one and only looks back, and otherwise 1. It depends only on shapes.
func (g *region) samplesPerItem(flopsPerRow float64) int {
	c := g.recurrence
	if c == nil || g.tiles != 1 || c.kernel == nil || c.Direction != essm.Forward || c.Window > 0 || g.pipeline != nil {
		return 1
	}
	return max(1, min(g.batch, record.TileSize(flopsPerRow, g.batch*g.length)/g.length))
}

// Do computes the samples of one work item.
func (p *shortPass) Do(w *worker, k int) {
	g := p.g
	first := k * g.samples
	count := min(g.samples, g.batch-first)
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
