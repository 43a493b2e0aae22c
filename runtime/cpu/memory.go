package cpu

import (
	"cmp"
	"maps"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// memoryPlan says where in the arena values lie.
type memoryPlan struct {
	off   []int // per value, in numbers; -1: not in the arena
	temp  []int // per unit: where the memory lies that it has to itself
	bytes int64
}

// interval is a range of the arena while units run.
type interval struct{ val, first, last, size int } // val: the value; -1-i: what unit i has to itself

// intervals is what lies in the arena, and when.
type intervals struct {
	all    []interval
	of     map[int]int // per value: its interval
	strips []strip
	plain  bool // each has a place of its own
}

// planMemory gives each float32 value of known shape that crosses units a range of the arena; ranges of values that are
// never alive together overlap.
func planMemory(d *binding, units []*unit, strips []strip, held []held) memoryPlan {
	unitOf := map[*lowering.Step]int{}
	for i, u := range units {
		for _, s := range u.steps {
			unitOf[s] = i
		}
	}
	lastRead := func(v *lowering.Value) int { // steps of an epilogue run earlier than others before them
		if d.Last[v.ID] >= len(d.p.Steps) {
			return len(units)
		}
		at := -1
		for _, s := range d.Reads[v.ID] {
			at = max(at, unitOf[s])
		}
		return at
	}
	direct := map[*lowering.Value]bool{}
	for _, v := range d.p.Outputs {
		direct[v] = true
	}
	local := map[int]bool{}
	for _, u := range units {
		if g := u.region; g != nil {
			g.locals(local)
		}
		if u.epilogue != nil {
			for _, s := range u.steps[:len(u.steps)-1] {
				local[s.Out[0].ID] = true
			}
		}
	}
	alias := map[int]int{}
	for _, u := range units {
		if u.region != nil {
			maps.Copy(alias, u.region.alias)
		}
	}
	live := intervals{of: map[int]int{}, strips: strips, plain: d.p.plain}
	for i, u := range units {
		for _, s := range u.steps {
			for _, v := range s.Out {
				if v == nil || !d.F32[v.ID] || direct[v] || local[v.ID] {
					continue
				}
				if _, shared := alias[v.ID]; shared {
					continue
				}
				first, last := i, max(i, lastRead(v))
				if g := u.region; g != nil && g.ahead && g.written(v.ID) {
					first = i - 1
				}
				if x, ok := live.over(d, units, held, i, v); ok {
					live.of[v.ID] = live.of[x]
					alias[v.ID] = x
					live.all[live.of[x]].last = last
					continue
				}
				live.of[v.ID] = len(live.all)
				live.all = append(live.all, interval{v.ID, first, last, scratchAlign * max(1, (d.held(v, held)+scratchAlign-1)/scratchAlign)})
			}
		}
	}
	for k, v := range live.all {
		if h := held[v.val]; h.rows == 0 || h.halo > 0 { // it outlives a chunk
			live.all[k].first, live.all[k].last = wholeStrips(strips, v.first, v.last)
		}
	}
	for i, u := range units {
		if n := u.own(); n > 0 {
			first := i
			if u.region != nil && u.region.ahead {
				first = i - 1
			}
			live.all = append(live.all, interval{-1 - i, first, i, (n + scratchAlign - 1) / scratchAlign * scratchAlign})
		}
	}
	return live.place(d, len(units), alias)
}

// own is the numbers of the arena that the unit has to itself: its kernel's, or the states at its tiles' edges.
func (u *unit) own() int {
	switch {
	case u.kernel != nil:
		return u.kernel.temp
	case u.region != nil && u.region.core != nil:
		return 2 * u.region.core.edgeStates()
	}
	return 0
}

// place gives each interval its range.
func (p *intervals) place(d *binding, units int, alias map[int]int) memoryPlan {
	// The largest first: what is placed later fits into the gaps.
	slices.SortStableFunc(p.all, func(a, b interval) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first)) })
	plan := memoryPlan{off: make([]int, len(d.p.Values)), temp: make([]int, units)}
	for i := range plan.off {
		plan.off[i] = -1
	}
	type busyInterval struct {
		interval
		off int
	}
	var placed []busyInterval
	top := 0
	for _, v := range p.all {
		var busy []span
		for _, o := range placed {
			if o.first <= v.last && v.first <= o.last {
				busy = append(busy, span{o.off, o.size})
			}
		}
		slices.SortFunc(busy, func(a, b span) int { return a.off - b.off })
		off := 0
		for _, b := range busy {
			if off+v.size <= b.off {
				break
			}
			off = max(off, b.off+b.n)
		}
		if v.val < 0 {
			plan.temp[-1-v.val] = off
		} else {
			plan.off[v.val] = off
		}
		placed = append(placed, busyInterval{v, off})
		top = max(top, off+v.size)
	}
	for x, v := range alias {
		for w, ok := alias[v]; ok; w, ok = alias[v] {
			v = w
		}
		plan.off[x] = plan.off[v]
	}
	plan.bytes = int64(top) * 4
	return plan
}

// locals adds the values that lie in scratch, or that no pass of the region computes.
func (g *region) locals(set map[int]bool) {
	for _, v := range g.between {
		set[v] = true
	}
	used := map[int]bool{}
	for _, l := range [][]int{g.all, g.pre} {
		for _, i := range l {
			c := &g.calls[i]
			if c.out.local || c.out.ring != nil {
				set[c.out.val] = true
			} else {
				used[c.out.val] = true
			}
		}
	}
	for i := range g.calls {
		if c := &g.calls[i]; (c.run != nil || g.flow != nil && i != g.coreAt) && !used[c.out.val] {
			set[c.out.val] = true
		}
	}
	if c := g.core; c != nil {
		if c.unread >= 0 {
			set[c.unread] = true
		}
		for _, p := range []place{c.x, c.xi} {
			if p.val >= 0 && (p.local || p.ring != nil) {
				set[p.val] = true
			}
		}
	}
}

// held gives the numbers of a value's buffer.
func (d *binding) held(v *lowering.Value, held []held) int {
	size, _ := tensor.Size(d.Shapes[v.ID])
	if h := held[v.ID]; h.rows > 0 {
		batch, _, _, _ := d.Along(v)
		return batch * h.rows * h.width
	}
	return size
}

// wholeStrips widens a range of units by the strips that it cuts.
func wholeStrips(strips []strip, first, last int) (from, to int) {
	from, to = first, last
	for _, st := range strips {
		if first >= st.from && first < st.to {
			from = st.from
		}
		if last >= st.from && last < st.to {
			to = st.to - 1
		}
	}
	return from, to
}

// memoryLimit is what a plan may hold: what was asked for, or the machine's memory where that is known.
func memoryLimit(asked, machine int64) int64 {
	switch {
	case asked > 0:
		return asked
	case machine > 0:
		return min(machine, lowering.MostBytes)
	}
	return lowering.MostBytes
}
