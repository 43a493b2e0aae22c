package cpu

import (
	"slices"

	"github.com/essmc/essmc/runtime/lowering"
)

// A region may write a result over a value that it reads. It must be the last reader of the value, read for each
// tile only the tile's rows, and read them before it writes the result's rows. Tiles that other workers compute at
// the same time use other rows.

// over returns a value whose place v, a result of unit i, can take; ok is false if there is none. No other result has
// the place of the value that it returns.
func (p *intervals) over(d *binding, units []*unit, extents []extent, i int, v *lowering.Value) (x int, ok bool) {
	g := units[i].region
	if g == nil || p.plain {
		return 0, false
	}
	d.Steps().Step(20 * len(g.all))
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
	if g.pipeline != nil { // calls run some tiles apart, and rings are filled before them
		return nil
	}
	t := g.touched()
	writers := t.writers[y]
	if len(writers) != 1 || slices.Contains(g.pre, g.all[writers[0]]) { // written by other passes, too
		return nil
	}
	writer := writers[0]
	out := g.calls[g.all[writer]].out
	seen := map[int]bool{}
	for _, i := range g.all {
		for _, p := range g.calls[i].in {
			if p.val >= 0 && !p.local && p.val != y && p.width == out.width && !seen[p.val] {
				seen[p.val] = true
				if g.doneWith(p.val, writer) {
					vals = append(vals, p.val)
				}
			}
		}
	}
	return vals
}

// touches are the places in a region's main pass at which values are read and written, as indices in region.all.
type touches struct {
	lastRead map[int]int
	writers  map[int][]int // of values that are not local
	made     map[int]bool
}

// touched returns the region's touches, which do not change once its calls are ordered.
func (g *region) touched() *touches {
	if g.touches != nil {
		return g.touches
	}
	t := &touches{map[int]int{}, map[int][]int{}, map[int]bool{}}
	for k, i := range g.all {
		c := &g.calls[i]
		for _, p := range c.in {
			t.lastRead[p.val] = k
		}
		t.made[c.out.val] = true
		if !c.out.local {
			t.writers[c.out.val] = append(t.writers[c.out.val], k)
		}
	}
	g.touches = t
	return t
}

// doneWith reports whether the main pass has read the rows of x in a tile for the last time when g.all[writer] writes
// its rows.
func (g *region) doneWith(x, writer int) bool {
	t := g.touched()
	if last, read := t.lastRead[x]; read && last > writer || t.made[x] {
		return false
	}
	w := &g.calls[g.all[writer]]
	for j, p := range w.in {
		if p.val == x && !slices.Contains(w.over, j) {
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
