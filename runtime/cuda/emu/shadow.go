package emu

import "math/bits"

// Shadow memory records for each byte whether it was written, and for each cell of a few bytes who read and wrote it
// last.

// shadow is the shadow memory of an allocation, or of a block's shared memory.
type shadow struct {
	bytes  int
	known  []uint64 // one bit per byte: it was written
	grain  uint     // a cell has 1<<grain bytes: 4, or the size of the narrowest access if smaller
	pages  []*page
	recent []transfer
}

const pageBits = 8

type page [1 << pageBits]cell

// cell has stamps of the last write and the last reads.
type cell struct{ written, read stamp }

// stamp is an access. From its lowest bits: the lane, the index of the instruction in the kernel, flags, and the
// segment. Segments count from 1, so 0 means no access.
//
// A segment is the time of a warp between two points at which all its threads are ordered: barriers, and
// bar.warp.sync. For reads by several threads the stamp has the last one, and how far apart the threads were.
type stamp uint64

const (
	laneBits      = 5
	placeBits     = 18
	levelShift    = laneBits + placeBits
	atomicStamp   = stamp(1) << (levelShift + 2)
	flyingStamp   = stamp(1) << (levelShift + 3) // an asynchronous copy that has not been waited for
	segmentShift  = levelShift + 4
	sameThread    = 0
	severalLanes  = 1 // of one warp
	severalWarps  = 2 // of one block, without a barrier in between
	severalBlocks = 3
)

func (m stamp) segment() uint64 { return uint64(m >> segmentShift) }
func (m stamp) lane() int       { return int(m & (1<<laneBits - 1)) }
func (m stamp) place() int      { return int(m >> laneBits & (1<<placeBits - 1)) }
func (m stamp) level() int      { return int(m >> levelShift & 3) }

// same reports whether both have the same segment and lane.
func (m stamp) same(n stamp) bool { x := m ^ n; return x>>segmentShift|x&(1<<laneBits-1) == 0 }

func newShadow(bytes int) *shadow {
	return &shadow{bytes: bytes, known: make([]uint64, (bytes+63)/64), grain: 2, pages: make([]*page, bytes>>(2+pageBits)+1)}
}

// reset clears the shadow. Old stamps may stay, since their segments are before any later one.
func (s *shadow) reset(bytes int) {
	if words := (bytes + 63) / 64; words <= cap(s.known) && bytes <= s.bytes {
		clear(s.known)
		return
	}
	*s = *newShadow(bytes)
}

// narrow makes cells as small as an access of size bytes at an offset needs.
func (s *shadow) narrow(at, size int) {
	grain := uint(bits.TrailingZeros(uint(at | size)))
	if grain >= s.grain {
		return
	}
	each := 1 << (s.grain - grain)
	pages := make([]*page, s.bytes>>(grain+pageBits)+1)
	for i, old := range s.pages {
		if old == nil {
			continue
		}
		for j := range old {
			n := (i<<pageBits + j) * each
			for k := n; k < n+each && k>>pageBits < len(pages); k++ {
				p := &pages[k>>pageBits]
				if *p == nil {
					*p = new(page)
				}
				(*p)[k&(1<<pageBits-1)] = old[j]
			}
		}
	}
	s.grain, s.pages = grain, pages
}

// cell returns cell i.
func (s *shadow) cell(i int) *cell {
	p := s.pages[i>>pageBits]
	if p == nil {
		p = new(page)
		s.pages[i>>pageBits] = p
	}
	return &p[i&(1<<pageBits-1)]
}

// isKnown reports whether size bytes from at were written. They must be in one 64-byte word.
func (s *shadow) isKnown(at, size int) bool {
	want := uint64(1)<<size - 1
	return s.known[at>>6]>>(at&63)&want == want
}

// unknown returns the first of n bytes from at that was never written, or -1.
func (s *shadow) unknown(at, n int) int {
	for end := at + n; at < end; {
		if at&63 == 0 && end-at >= 64 && s.known[at>>6] == ^uint64(0) {
			at += 64
			continue
		}
		if !s.isKnown(at, 1) {
			return at
		}
		at++
	}
	return -1
}

// setKnown marks size bytes from at, in one 64-byte word, as written.
func (s *shadow) setKnown(at, size int) { s.known[at>>6] |= (1<<size - 1) << (at & 63) }

func (s *shadow) setUnknown(at, size int) { s.known[at>>6] &^= (1<<size - 1) << (at & 63) }

// setAll marks n bytes from at as written.
func (s *shadow) setAll(at, n int) {
	for n > 0 && at&63 != 0 {
		s.setKnown(at, 1)
		at, n = at+1, n-1
	}
	for ; n >= 64; at, n = at+64, n-64 {
		s.known[at>>6] = ^uint64(0)
	}
	for ; n > 0; at, n = at+1, n-1 {
		s.setKnown(at, 1)
	}
}

// clear marks n bytes from at as undefined.
func (s *shadow) clear(at, n int) {
	for end := at + n; at < end; {
		if at&63 == 0 && end-at >= 64 {
			s.known[at>>6] = 0
			at += 64
			continue
		}
		s.setUnknown(at, 1)
		at++
	}
}

// copyFrom marks n bytes from at as a copy of the bytes of b from src.
func (s *shadow) copyFrom(at, n int, b *shadow, src int) {
	for n > 0 {
		if at&63 == 0 && src&63 == 0 && n >= 64 {
			s.known[at>>6] = b.known[src>>6]
			at, src, n = at+64, src+64, n-64
			continue
		}
		if b.isKnown(src, 1) {
			s.setKnown(at, 1)
		} else {
			s.setUnknown(at, 1)
		}
		at, src, n = at+1, src+1, n-1
	}
}
