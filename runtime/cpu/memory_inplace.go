package cpu

import (
	"slices"

	"github.com/essmc/essmc/runtime/lowering"
)

// Regions write over what they read: where a region is the last to read a value, and reads no rows of it but those of the tile
// that it computes, and these before it writes the tile's rows of one of its results, the result takes the place of the value.
// Tiles that other workers compute meanwhile touch other rows.

// over gives the value that v, which unit i computes, takes the place of; ok is false where there is none. The value is one of
// lives, which no other result has taken the place of; v becomes its continuation.
func (p *intervals) over(d *binding, units []*unit, held []extent, i int, v *lowering.Value) (x int, ok bool) {
	g := units[i].region
	if g == nil || p.plain {
		return 0, false
	}
	for _, x := range g.readBefore(v.ID) {
		at, live := p.of[x]
		if !live || p.all[at].Last != i || p.all[at].val == v.ID {
			continue
		}
		same := held[x] == held[v.ID] && d.bufferSize(d.p.Values[x], held) == d.bufferSize(v, held)
		if !same || held[x].halo > 0 || held[x].rows == 0 && inStretch(p.stretches, i) { // other units of a stretch may still read earlier rows
			continue
		}
		return x, true
	}
	return 0, false
}

// readBefore gives the values outside of the region that a call of the main pass may write its result y over.
func (g *region) readBefore(y int) (vals []int) {
	if g.pipeline != nil { // calls may be tiles behind each other, and a ring is filled before them
		return nil
	}
	writer := -1 // its place in all
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
			if p.val >= 0 && !p.local && p.val != y && p.width == out.width && !slices.Contains(vals, p.val) && g.doneWith(p.val, writer) {
				vals = append(vals, p.val)
			}
		}
	}
	return vals
}

// doneWith reports whether the main pass needs x no more of a tile when call writer of all, counted from 0, stores its rows.
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
