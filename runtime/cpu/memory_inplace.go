package cpu

import (
	"slices"

	"github.com/essmc/essmc/runtime/lowering"
)

// A region may write a result over a value that it reads. It must be the last reader of the value, read for each tile
// only the tile's rows, and read them before it writes those of the result. Tiles that other workers compute at the
// same time use other rows.

// over returns a value whose place v, a result of unit i, can take; ok is false if there is none. No other result has
// the place of the value that it returns.
func (p *intervals) over(d *binding, units []*unit, extents []extent, i int, v *lowering.Value) (x int, ok bool) {
	g := units[i].region
	if g == nil || p.plain {
		return 0, false
	}
	for _, x := range g.readBefore(v.ID) {
		at, live := p.of[x]
		if !live || p.all[at].Last != i || p.all[at].val == v.ID || p.otherwise(at, x, i) {
			continue
		}
		same := extents[x] == extents[v.ID] && d.bufferSize(d.p.Values[x], extents) == d.bufferSize(v, extents)
		// other units of a stretch may still read earlier rows
		if !same || extents[x].halo > 0 || extents[x].rows == 0 && inStretch(p.stretches, i) {
			continue
		}
		return x, true
	}
	return 0, false
}

// renamed returns the interval of the input of a unit that gives it another shape, for the result v.
func (p *intervals) renamed(d *binding, u *unit, extents []extent, v *lowering.Value) (at int, ok bool) {
	if p.plain || u.kernel == nil || !u.kernel.renames || u.epilogue != nil {
		return 0, false
	}
	x := u.steps[0].In[0]
	at, ok = p.of[x.ID]
	if !ok || extents[x.ID].rows > 0 || extents[x.ID].halo > 0 || extents[v.ID].rows > 0 || extents[v.ID].halo > 0 ||
		d.bufferSize(x, extents) != d.bufferSize(v, extents) {
		return 0, false
	}
	if len(p.names[at]) == 0 {
		p.names[at] = []int{x.ID}
	}
	p.names[at] = append(p.names[at], v.ID)
	return at, true
}

// otherwise reports whether unit i, or a later one, reads the content of x by another name.
func (p *intervals) otherwise(at, x, i int) bool {
	return slices.ContainsFunc(p.names[at], func(v int) bool { return v != x && p.lives[v].Last >= i })
}

// readBefore returns the values from outside of the region that the call of the main pass that computes y may write
// over.
func (g *region) readBefore(y int) (vals []int) {
	if g.pipeline != nil { // calls run some tiles behind each other, and rings are filled before them
		return nil
	}
	writer := -1 // its index in g.all
	var out place
	for k, i := range g.all {
		if c := &g.calls[i]; c.out.val == y && !c.out.local {
			if writer >= 0 || slices.Contains(g.pre, i) { // written by other passes, too
				return nil
			}
			writer, out = k, c.out
		}
	}
	if writer < 0 {
		return nil
	}
	for _, i := range g.all {
		for _, p := range g.calls[i].in {
			if p.val >= 0 && !p.local && p.val != y && p.width == out.width && !slices.Contains(vals, p.val) &&
				g.doneWith(p.val, writer) {
				vals = append(vals, p.val)
			}
		}
	}
	return vals
}

// doneWith reports whether the main pass has read the rows of x in a tile for the last time when g.all[writer] writes
// its rows.
func (g *region) doneWith(x, writer int) bool {
	for k, i := range g.all {
		c := &g.calls[i]
		for j, p := range c.in {
			if p.val == x && (k > writer || k == writer && !slices.Contains(c.over, j)) {
				return false
			}
		}
		if c.out.val == x {
			return false
		}
	}
	c := g.recurrence
	if c == nil {
		return true
	}
	for _, p := range []place{c.x, c.xi} {
		if p.val == x {
			return false
		}
	}
	if x == c.stateVal || x == c.stateOutVal {
		return false
	}
	for _, p := range []place{c.v, c.vi} {
		if p.val == x && (c.Window > 0 || c.kernel == nil || writer < g.mid) { // reads other rows, or reads them later
			return false
		}
	}
	return true
}
