package emu

import "math/bits"

// Blocks of a launch are ordered only by atomics between fences. A lane that has executed a fence hands over, with
// its next atomics on an address, everything that its block did before the last barrier before the fence. A lane
// that finds this with an atomic on the address, and then executes a fence, takes it over for all threads of its
// block, from their next barrier on. This is stricter than PTX's memory model: a thread's own accesses since the
// barrier are not handed over.

// knowledge gives, for other blocks, the segment before which all their accesses are ordered before a point.
type knowledge map[uint32]uint64

// add adds k to n, and returns it. It may return n itself.
func (n knowledge) add(k knowledge) knowledge {
	if n == nil && len(k) > 0 {
		n = make(knowledge, len(k))
	}
	for block, end := range k {
		n[block] = max(n[block], end)
	}
	return n
}

// handed is the state of a warp between fences and atomics.
type handed struct {
	fenced uint32    // lanes that have executed a fence
	end    uint64    // the first segment after the barrier before the first of these fences
	lanes  uint32    // lanes that have executed atomics since
	found  knowledge // handed over by these atomics
}

// atomics records a warp's atomics on global memory.
func (c *checks) atomics(a *access, s *blockShadow) {
	h := &s.handed[a.w.number]
	for m := a.mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		at := a.addr[i]
		h.lanes |= 1 << i
		h.found = h.found.add(c.places[at])
		if h.fenced>>i&1 == 0 {
			continue
		}
		own := knowledge{uint32(a.w.block.number): h.end}
		if c.places == nil {
			c.places = map[uint64]knowledge{}
		}
		c.places[at] = c.places[at].add(own.add(s.known))
	}
}

func (c *checks) fence(w *warp, _ *instr, mask uint32) {
	s := w.block.shadow.(*blockShadow)
	h := &s.handed[w.number]
	if h.lanes&mask != 0 {
		s.taken = s.taken.add(h.found)
		h.lanes, h.found = 0, nil
	}
	if h.fenced&^mask == 0 { // otherwise the earlier fence of other lanes is valid for all
		h.end = s.since
	}
	h.fenced |= mask
}

// follows reports whether an access in an earlier segment of another block is ordered before block s's last barrier.
func (s *blockShadow) follows(number uint32, segment uint64) bool { return segment < s.known[number] }
