package lowering

import (
	"math/bits"
	"slices"

	"github.com/essmc/essmc/ir"
)

// manyIntervals is the number of intervals up to which Place compares all pairs.
const manyIntervals = 1 << 11

// placeMany is Place for many intervals. It goes through them in order of time, and takes and gives back ranges of one
// arena in constant time each, from lists of free ranges by size. The arena may be larger than Place would make it.
func placeMany(c *ir.EvalCtx, all []Interval, align int) (offsets []int, size int) {
	begins, ends := make([]int, len(all)), make([]int, len(all))
	for i := range all {
		c.Step(4)
		begins[i], ends[i] = i, i
	}
	slices.SortStableFunc(begins, func(i, j int) int { c.Step(8); return all[i].First - all[j].First })
	slices.SortStableFunc(ends, func(i, j int) int { c.Step(8); return all[i].Last - all[j].Last })
	offsets = make([]int, len(all))
	length := func(i int) int { return align * max(1, (all[i].Size+align-1)/align) }
	a := newFreeLists()
	for _, i := range begins {
		c.Step(200)
		for len(ends) > 0 && all[ends[0]].Last < all[i].First {
			c.Step(200)
			a.give(memoryRange{offsets[ends[0]], length(ends[0])})
			ends = ends[1:]
		}
		offsets[i] = a.take(length(i))
	}
	return offsets, a.size
}

// freeLists are the free ranges of an arena that grows. No two of them are adjacent.
type freeLists struct {
	size     int
	lists    [bits.UintSize][]int // offsets of free ranges of 2^k to 2^(k+1)-1; outdated ones are skipped
	from, to map[int]int          // lengths of the free ranges, by their offsets and by their ends
}

func newFreeLists() *freeLists { return &freeLists{from: map[int]int{}, to: map[int]int{}} }

// looks is the number of ranges of the smallest class that take looks at.
const looks = 8

// take returns the offset of a new range of n.
func (a *freeLists) take(n int) int {
	for k := bits.Len(uint(n)) - 1; k < len(a.lists); k++ {
		list := a.lists[k]
		for look := 0; len(list) > 0 && look < looks; look++ {
			at := len(list) - 1 - look
			if at < 0 {
				break
			}
			off := list[at]
			length, free := a.from[off]
			if !free || bits.Len(uint(length))-1 != k {
				list = slices.Delete(list, at, at+1) // among the last few
				look--
				continue
			}
			if length < n {
				continue
			}
			a.lists[k] = slices.Delete(list, at, at+1)
			a.remove(off, length)
			if length > n {
				a.add(off+n, length-n)
			}
			return off
		}
		a.lists[k] = list
	}
	if length, free := a.to[a.size]; free { // the last range grows
		off := a.size - length
		a.remove(off, length)
		a.size = off + n
		return off
	}
	a.size += n
	return a.size - n
}

// give gives back a range, and joins it with its free neighbours.
func (a *freeLists) give(r memoryRange) {
	if length, free := a.to[r.off]; free {
		a.remove(r.off-length, length)
		r = memoryRange{r.off - length, r.n + length}
	}
	if length, free := a.from[r.off+r.n]; free {
		a.remove(r.off+r.n, length)
		r.n += length
	}
	a.add(r.off, r.n)
}

func (a *freeLists) add(off, length int) {
	a.from[off], a.to[off+length] = length, length
	k := bits.Len(uint(length)) - 1
	a.lists[k] = append(a.lists[k], off)
}

func (a *freeLists) remove(off, length int) {
	delete(a.from, off)
	delete(a.to, off+length)
}
