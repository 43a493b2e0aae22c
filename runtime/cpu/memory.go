package cpu

import (
	"maps"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// memoryPlan holds the places of values in the arena.
type memoryPlan struct {
	off   []int // per value, in float32; -1: not in the arena
	temp  []int // per unit: its own memory, unit.temp
	bytes int64
}

// intervals are the ranges of the arena, with their lifetimes.
type intervals struct {
	all       []interval
	of        map[int]int   // per value: its interval
	names     map[int][]int // per interval: values with the same content, if there are several
	lives     []lowering.Life
	stretches []stretch
	plain     bool // no value takes the place of another
}

// interval is a range of the arena from the first unit that uses it to the last.
type interval struct {
	val int // the value; -1-i: unit i's own memory
	lowering.Interval
}

// planMemory assigns arena memory to each value that crosses units, if its size is known. The ranges of values that
// are never alive at the same time may overlap.
func planMemory(d *binding, units []*unit, stretches []stretch, extents []extent) memoryPlan {
	order := make([][]*lowering.Step, len(units))
	for i, u := range units {
		order[i] = u.steps
	}
	lives := d.Lives(order) // by units, since the steps of an epilogue run before others that precede them
	direct := map[*lowering.Value]bool{}
	for _, v := range d.p.Outputs {
		d.Steps().Step(50)
		direct[v] = true
	}
	local := map[int]bool{}
	for _, u := range units {
		d.Steps().Step(20)
		if g := u.region; g != nil {
			d.Steps().Step(100 * len(g.calls))
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
	live := intervals{of: map[int]int{}, names: map[int][]int{}, lives: lives, stretches: stretches, plain: d.p.plain}
	for i, u := range units {
		for _, s := range u.steps {
			for _, v := range s.Out {
				d.Steps().Step(200)
				if v == nil || !d.lies(u, v) || direct[v] || local[v.ID] {
					continue
				}
				if _, shared := alias[v.ID]; shared {
					continue
				}
				life := lives[v.ID]
				if g := u.region; g != nil && g.ahead && g.written(v.ID) {
					life.First--
				}
				if at, ok := live.renamed(d, u, extents, v); ok {
					live.of[v.ID] = at
					alias[v.ID] = live.all[at].val
					live.all[at].Last = max(live.all[at].Last, life.Last)
					continue
				}
				if x, ok := live.over(d, units, extents, i, v); ok {
					live.of[v.ID] = live.of[x]
					alias[v.ID] = x
					live.all[live.of[x]].Last = life.Last
					continue
				}
				live.of[v.ID] = len(live.all)
				size := d.bufferSize(v, extents)
				live.all = append(live.all,
					interval{v.ID, lowering.Interval{First: life.First, Last: life.Last, Size: size}})
			}
		}
	}
	for k, v := range live.all {
		d.Steps().Step(20 + len(stretches))
		if h := extents[v.val]; h.rows == 0 || h.halo > 0 { // it lives longer than a chunk
			live.all[k].First, live.all[k].Last = wholeStretches(stretches, v.First, v.Last)
		}
	}
	moved := live.join(d, units, lives, extents)
	for i, u := range units {
		if n := u.own(); n > 0 {
			first := i
			if u.region != nil && u.region.ahead {
				first = i - 1
			}
			live.all = append(live.all, interval{-1 - i, lowering.Interval{First: first, Last: i, Size: n}})
		}
	}
	return live.place(d, len(units), alias, moved)
}

// own returns the size of the unit's own memory in the arena, in float32: for its kernel, or for the backward states
// at the edges of its tiles.
func (u *unit) own() int {
	switch {
	case u.kernel != nil:
		return u.kernel.temp
	case u.region != nil && u.region.recurrence != nil:
		return 2 * u.region.recurrence.edgeStates()
	}
	return 0
}

// place assigns a range of the arena to each interval.
func (p *intervals) place(d *binding, units int, alias map[int]int, moved map[int]inside) memoryPlan {
	plan := memoryPlan{off: make([]int, len(d.p.Values)), temp: make([]int, units)}
	for i := range plan.off {
		plan.off[i] = -1
	}
	ranges := make([]lowering.Interval, len(p.all))
	for i, v := range p.all {
		d.Steps().Step(4)
		ranges[i] = v.Interval
	}
	offsets, top := lowering.Place(d.Steps(), ranges, scratchAlign)
	for i, v := range p.all {
		d.Steps().Step(4)
		if v.val < 0 {
			plan.temp[-1-v.val] = offsets[i]
		} else {
			plan.off[v.val] = offsets[i]
		}
	}
	for x := range moved {
		d.Steps().Step(100)
		at := 0
		val := x
		for m, ok := moved[val]; ok; m, ok = moved[val] {
			val, at = m.val, at+m.at
		}
		plan.off[x] = plan.off[val] + at
	}
	for x, v := range alias {
		d.Steps().Step(100)
		for w, ok := alias[v]; ok; w, ok = alias[v] {
			v = w
		}
		plan.off[x] = plan.off[v]
	}
	plan.bytes = int64(top) * 4
	return plan
}

// locals adds to set the values without a buffer: those in scratch or in rings, and those that no pass of the region
// computes.
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
		if c := &g.calls[i]; (c.run != nil || g.pipeline != nil && i != g.recurrenceAt) && !used[c.out.val] {
			set[c.out.val] = true
		}
	}
	if c := g.recurrence; c != nil {
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

// lies reports whether a result of the unit has memory of its own. If it is not float32, it does only if a kernel
// writes it, because an evaluation creates its own tensor.
func (d *binding) lies(u *unit, v *lowering.Value) bool {
	return d.IsFloat32(v) || d.Placed(v) && (u.kernel != nil || u.stage() != nil)
}

// bufferSize returns the size of a value's buffer, in float32.
func (d *binding) bufferSize(v *lowering.Value, extents []extent) int {
	size, _ := tensor.Size(d.Shape(v))
	size = (tensor.ByteSize(d.DType(v), size) + 3) / 4
	if h := extents[v.ID]; h.rows > 0 {
		batch, _, _, _ := d.Along(v)
		return batch * h.rows * h.width
	}
	return size
}

// wholeStretches extends a range of units to the ends of the stretches that it begins or ends in.
func wholeStretches(stretches []stretch, first, last int) (from, to int) {
	from, to = first, last
	for _, st := range stretches {
		if first >= st.from && first < st.to {
			from = st.from
		}
		if last >= st.from && last < st.to {
			to = st.to - 1
		}
	}
	return from, to
}
