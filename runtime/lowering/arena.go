package lowering

import (
	"cmp"
	"slices"

	"github.com/essmc/essmc/ir"
)

// Interval is a request for memory over a range of units of execution.
type Interval struct {
	First, Last int // first and last unit, inclusive
	Size        int // in any unit of measure, the same as Place's offsets
}

// Place returns an offset for each interval, and the size of the arena that holds them all. Intervals that overlap in
// time do not overlap in memory. Offsets are multiples of align, and sizes are rounded up to one, 0 too. The largest
// intervals are placed first, each at the lowest free offset, so that smaller ones fit into the gaps; of equal ones,
// the one that begins first. This takes n² steps, so more than manyIntervals are placed in order of time (placeMany).
// Place ends with the context of c.
func Place(c *ir.EvalCtx, all []Interval, align int) (offsets []int, size int) {
	if len(all) > manyIntervals {
		return placeMany(c, all, align)
	}
	order := make([]int, len(all))
	sizes := make([]int, len(all))
	for i, v := range all {
		order[i], sizes[i] = i, align*max(1, (v.Size+align-1)/align)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(all[a].First, all[b].First))
	})
	offsets = make([]int, len(all))
	var busy []memoryRange
	for k, i := range order {
		c.Step(4 * (k + 1))
		busy = busy[:0]
		for _, j := range order[:k] {
			if all[j].First <= all[i].Last && all[i].First <= all[j].Last {
				busy = append(busy, memoryRange{offsets[j], sizes[j]})
			}
		}
		slices.SortFunc(busy, func(a, b memoryRange) int { return a.off - b.off })
		off := 0
		for _, b := range busy {
			if off+sizes[i] <= b.off {
				break
			}
			off = max(off, b.off+b.n)
		}
		offsets[i] = off
		size = max(size, off+sizes[i])
	}
	return offsets, size
}

// memoryRange is a range of memory.
type memoryRange struct{ off, n int }

// Scratch assigns ranges of memory that are taken and returned in execution order, such as the memory of a worker in
// a region. The zero value aligns nothing.
type Scratch struct {
	// Align divides all offsets and sizes; 0 means 1.
	Align int
	// Ranges of at least Page are Skew longer than requested, so that consecutive ones do not start at the same
	// offset in a page. If Page is 0, this never happens. Skew is a multiple of Align.
	Page, Skew int

	size int
	free []memoryRange // in order; no two are adjacent
}

// Size returns the memory needed by all ranges so far.
func (a *Scratch) Size() int { return a.size }

// round returns the memory that a range of n takes.
func (a *Scratch) round(n int) int {
	if align := max(1, a.Align); n%align != 0 {
		n += align - n%align
	}
	if a.Page > 0 && n >= a.Page {
		n += a.Skew
	}
	return n
}

// Take returns the offset of a new range of n: in the smallest gap that is large enough, or at the end.
func (a *Scratch) Take(n int) int {
	n = a.round(n)
	best := -1
	for i, s := range a.free {
		if s.n >= n && (best < 0 || s.n < a.free[best].n) {
			best = i
		}
	}
	if best >= 0 {
		s := &a.free[best]
		off := s.off
		s.off, s.n = s.off+n, s.n-n
		if s.n == 0 {
			a.free = slices.Delete(a.free, best, best+1)
		}
		return off
	}
	if k := len(a.free); k > 0 && a.free[k-1].off+a.free[k-1].n == a.size { // grow the last gap
		off := a.free[k-1].off
		a.free = a.free[:k-1]
		a.size = off + n
		return off
	}
	off := a.size
	a.size += n
	return off
}

// Give returns the range of n at off to the free memory. It must come from Take.
func (a *Scratch) Give(off, n int) {
	n = a.round(n)
	if n == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(a.free, off, func(s memoryRange, off int) int { return s.off - off })
	a.free = slices.Insert(a.free, i, memoryRange{off, n})
	if i+1 < len(a.free) && a.free[i].off+a.free[i].n == a.free[i+1].off {
		a.free[i].n += a.free[i+1].n
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].off+a.free[i-1].n == a.free[i].off {
		a.free[i-1].n += a.free[i].n
		a.free = slices.Delete(a.free, i, i+1)
	}
}

// Life is the lifetime of a value, in units of execution.
type Life struct {
	First int // the unit that computes it; -1 for a value that exists before the run
	Last  int // the last unit that reads it
}

// Lives returns the lifetimes of values, by ID, if units of steps run one after the other. Outputs of the program
// live until len(units). A value without readers lives only in its unit. Last is -1 for a value that no unit
// computes or reads.
func (d *Binding) Lives(units [][]*Step) []Life {
	lives := make([]Life, len(d.Program.Values))
	for i := range lives {
		lives[i] = Life{-1, -1}
	}
	for i, u := range units {
		for _, s := range u {
			d.Steps().Step(20)
			for _, v := range s.Out {
				if d.Steps().Step(4); v != nil {
					lives[v.ID] = Life{i, i}
				}
			}
		}
	}
	for i, u := range units {
		for _, s := range u {
			d.Steps().Step(20)
			for v := range s.Reads {
				d.Steps().Step(4)
				lives[v.ID].Last = max(lives[v.ID].Last, i)
			}
		}
	}
	for _, v := range d.Program.Outputs {
		lives[v.ID].Last = len(units)
	}
	return lives
}
