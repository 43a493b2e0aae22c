package lowering

import (
	"cmp"
	"slices"
)

// Interval asks for memory from one unit of execution to another.
type Interval struct {
	First, Last int // units, both included
	Size        int // in bytes, or whatever the arena is counted in
}

// Place returns each interval an offset, and the size of the arena that holds them all: intervals that overlap in time do not
// overlap in memory. Offsets are multiples of align, and nothing else lies between an interval's end and the next multiple; an
// interval of size 0 has a place of its own, too. The largest are placed first, each at the lowest offset that is free: what
// comes later fits into the gaps. Of equal ones that which begins first comes first.
func Place(all []Interval, align int) (offsets []int, size int) {
	order := make([]int, len(all))
	sizes := make([]int, len(all))
	for i, v := range all {
		order[i], sizes[i] = i, align*max(1, (v.Size+align-1)/align)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(all[a].First, all[b].First))
	})
	offsets = make([]int, len(all))
	var busy []stretch
	for k, i := range order {
		busy = busy[:0]
		for _, j := range order[:k] {
			if all[j].First <= all[i].Last && all[i].First <= all[j].Last {
				busy = append(busy, stretch{offsets[j], sizes[j]})
			}
		}
		slices.SortFunc(busy, func(a, b stretch) int { return a.off - b.off })
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

// stretch is a piece of memory.
type stretch struct{ off, n int }

// Scratch hands out ranges of memory that are taken and given back in the order in which they are used: the memory of one
// worker within a region, say. The zero value hands out single units.
type Scratch struct {
	// Align is of what offsets and sizes are multiples.
	Align int
	// Ranges of Page and more are Skew longer than was asked for, so that those that follow each other do not all begin at the
	// same place of a page; 0: none are. Skew is a multiple of Align.
	Page, Skew int

	size int
	free []stretch // in order, none beside each other
}

// Size is how much memory all ranges so far have needed.
func (a *Scratch) Size() int { return a.size }

// round is how much memory a range of n takes.
func (a *Scratch) round(n int) int {
	if align := max(1, a.Align); n%align != 0 {
		n += align - n%align
	}
	if a.Page > 0 && n >= a.Page {
		n += a.Skew
	}
	return n
}

// Take returns the offset of a range of n: in the smallest gap that has room, or at the end.
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

// Give returns the range of n at off, which Take has given.
func (a *Scratch) Give(off, n int) {
	n = a.round(n)
	if n == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(a.free, off, func(s stretch, off int) int { return s.off - off })
	a.free = slices.Insert(a.free, i, stretch{off, n})
	if i+1 < len(a.free) && a.free[i].off+a.free[i].n == a.free[i+1].off {
		a.free[i].n += a.free[i+1].n
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].off+a.free[i-1].n == a.free[i].off {
		a.free[i-1].n += a.free[i].n
		a.free = slices.Delete(a.free, i, i+1)
	}
}

// Life is the units of execution in which a value is needed.
type Life struct {
	First int // computes it; -1: it is there before the run
	Last  int // reads it last
}

// Lives returns the lives of values, by ID, where units of steps run one after the other. What leaves the program lives to
// len(units). A value that nobody reads lives in its unit alone, and one that is there before the run, or that no unit computes
// or reads, to -1.
func (d *Binding) Lives(units [][]*Step) []Life {
	lives := make([]Life, len(d.Program.Values))
	for i := range lives {
		lives[i] = Life{-1, -1}
	}
	for i, u := range units {
		for _, s := range u {
			for _, v := range s.Out {
				if v != nil {
					lives[v.ID] = Life{i, i}
				}
			}
		}
	}
	for i, u := range units {
		for _, s := range u {
			for _, v := range s.In {
				if v != nil {
					lives[v.ID].Last = max(lives[v.ID].Last, i)
				}
			}
			for _, c := range s.Captures {
				lives[c.Outer.ID].Last = max(lives[c.Outer.ID].Last, i)
			}
		}
	}
	for _, v := range d.Program.Outputs {
		lives[v.ID].Last = len(units)
	}
	return lives
}
