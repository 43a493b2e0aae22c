package cpu

// A region whose recurrence runs backward in time processes its input twice: in the back pass, and, after all
// workers have finished that, in the main pass. If the back pass of a tile reads only rows of that tile, the region
// before it runs the back pass after its own main pass, tile by tile. The rows are then still in the cache, and
// workers wait for each other once per region. Profiles count the back pass as part of the previous region.

// runAhead marks such regions.
func runAhead(units []*unit, stretches []stretch) {
	for i := range len(units) - 1 {
		g, next := units[i].region, units[i+1].region
		if g != nil && next != nil && !inStretch(stretches, i) && !inStretch(stretches, i+1) && next.backAfter(g) {
			g.next, next.ahead = next, true
		}
	}
}

// backAfter reports whether each tile of g's back pass can run directly after the same tile of the main pass of the
// region before it.
func (g *region) backAfter(before *region) bool {
	c := g.recurrence
	if c == nil || c.jump == nil || g.pipeline != nil || c.Window > 0 || before.samples > 1 || before.per != 1 ||
		before.pipeline != nil ||
		before.batch != g.batch || before.length != g.length || before.tile != g.tile {
		return false
	}
	if len(g.pre) > 0 && !c.v.local && !c.keep { // its input is filled in first
		return false
	}
	b := before.recurrence
	late := func(p place) bool { return b != nil && p.val >= 0 && p.val == b.stateOutVal } // complete after all tiles
	for _, i := range g.pre {
		for _, p := range g.calls[i].in {
			if late(p) {
				return false
			}
		}
	}
	return !late(c.v) && !late(c.vi)
}

// written reports whether the region's back pass writes v.
func (g *region) written(val int) bool {
	for _, i := range g.pre {
		if p := g.calls[i].out; p.val == val && !p.local {
			return true
		}
	}
	return false
}
