package emu

import (
	"fmt"
	"math/bits"
)

// checks finds reads of memory that was never written, and races. A race is two accesses of different threads of a
// launch to the same bytes, at least one a write, that nothing orders. A barrier of the whole block orders its
// threads; bar.warp.sync orders a warp. Shuffles, votes and the lockstep of a warp's lanes do not. Blocks are
// ordered by atomics between fences (handed). Atomics do not race with each other. A write races even if it does not
// change the memory. For each cell, the last read is recorded, and how far apart the readers were, so a race is
// missed only after another race.
//
// Asynchronous copies must not copy memory that was never written, and their destination may be used only after a
// wait.
type checks struct {
	orders
	tell     func(format string, args ...any) // adds a finding about a copy or fill
	next     uint64                           // the next segment
	first    uint64                           // of the launch
	segments []segment
	seen     map[uint64]bool // findings of the launch, by place and kind; each is reported once
	free     []*blockShadow
	distinct [2]uint64            // bytes of global memory that the launch read, and wrote
	places   map[uint64]knowledge // what atomics of the launch have handed over, by address
}

// segment identifies the warp and time of a stamp.
type segment struct {
	number  uint32 // of the block
	barrier uint32 // number of barriers that the block had passed
	warp    uint16
}

// blockShadow is the state of a block.
type blockShadow struct {
	segment []stamp // of each warp, as the upper bits of stamps
	barrier uint32
	since   uint64 // the first segment after the last barrier
	shared  shadow
	local   []*shadow // local memory of all lanes, by warp
	handed  []handed  // of each warp
	taken   knowledge // from other blocks, valid after the next barrier
	known   knowledge // from other blocks
}

func (c *checks) launch(*launch) {
	if c.next == 0 {
		c.next = 1
	}
	c.first, c.segments, c.seen = c.next, c.segments[:0], nil
	c.distinct = [2]uint64{}
	clear(c.places)
}

func (c *checks) blockStarted(b *block) {
	var s *blockShadow
	if n := len(c.free); n > 0 {
		s, c.free = c.free[n-1], c.free[:n-1]
	} else {
		s = &blockShadow{}
	}
	s.shared.reset(len(b.shared))
	s.segment, s.barrier, s.local = s.segment[:0], 0, s.local[:0]
	s.handed, s.taken, s.known = make([]handed, len(b.warps)), nil, nil
	for range b.warps {
		s.segment = append(s.segment, 0)
		if k := b.launch.kernel.local; k > 0 {
			s.local = append(s.local, newShadow(32*k))
		}
	}
	b.shadow = s
	c.order(b, s)
}

func (c *checks) blockEnded(b *block) {
	c.free = append(c.free, b.shadow.(*blockShadow))
	b.shadow = nil
}

// order starts a new segment for each warp.
func (c *checks) order(b *block, s *blockShadow) {
	s.since = c.next
	for i := range s.segment {
		c.segment(b, s, i)
	}
}

func (c *checks) segment(b *block, s *blockShadow, warp int) {
	s.segment[warp] = stamp(c.next << segmentShift)
	c.next++
	c.segments = append(c.segments, segment{uint32(b.number), s.barrier, uint16(warp)})
}

func (c *checks) barrier(b *block, id int) {
	if b.arrived[id] < b.living { // only some warps arrived: this orders nothing
		return
	}
	s := b.shadow.(*blockShadow)
	s.barrier++
	s.known, s.taken = s.known.add(s.taken), nil
	c.order(b, s)
}

func (c *checks) warpSync(w *warp, in *instr, mask uint32) {
	if in.op[0] == "bar" && mask == w.alive {
		c.segment(w.block, w.block.shadow.(*blockShadow), w.number)
	}
}

func (c *checks) access(a *access) {
	s := a.w.block.shadow.(*blockShadow)
	own := s.segment[a.w.number] | stamp(min(a.in.pc, 1<<placeBits-1)<<laneBits)
	switch a.space {
	case shared:
		for m := a.mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m)
			c.lane(a, i, s, &s.shared, int(a.addr[i]), own|stamp(i), nil)
		}
	case global:
		if a.kind == atomic {
			c.atomics(a, s)
		}
		var last *allocation
		var sh *shadow
		for m := a.mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m)
			if l := a.alloc[i]; l != last {
				last, sh = l, l.shadow.(*shadow)
			}
			c.lane(a, i, s, sh, int(a.addr[i]-last.base), own|stamp(i), last)
		}
	case local:
		sh := s.local[a.w.number]
		each := a.w.block.launch.kernel.local
		for m := a.mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m)
			at := i*each + int(a.addr[i])
			switch {
			case a.kind == store:
				sh.setAll(at, a.size)
			default:
				for j := range a.size {
					if !sh.isKnown(at+j, 1) {
						c.unknown(a, i, at, nil)
						break
					}
				}
			}
		}
	}
}

// lane checks a lane's access at an offset in memory with the shadow sh. l is the allocation if the memory is
// global.
func (c *checks) lane(a *access, i int, s *blockShadow, sh *shadow, at int, own stamp, l *allocation) {
	n := a.size
	if (at|n)&(1<<sh.grain-1) != 0 {
		sh.narrow(at, n)
	}
	writes := false
	switch a.kind {
	case load, copyLoad:
		if !sh.isKnown(at, n) {
			c.unknown(a, i, at, l)
		}
	case atomic:
		if !sh.isKnown(at, n) {
			c.unknown(a, i, at, l)
		}
		own |= atomicStamp
		writes = true
	case store:
		writes = true
	case copyStore:
		own |= flyingStamp
		writes = true
	case copyDone:
		writes = true
	}
	since := s.since // accesses to shared memory before it are ordered before all later ones
	if l != nil {
		since = c.first
	}
	if c.doubtful != noSegment && l != nil {
		c.across(a, i, sh, at, writes, l)
	}
	g := sh.grain
	end := (at + n - 1) >> g
	for j := at >> g; j <= end; j++ {
		p := sh.cell(j)
		w, r := p.written, p.read
		if w.segment() >= since && !w.same(own) || w&flyingStamp != 0 {
			c.against(a, i, at, w, own, true, l)
		}
		if !writes {
			level := stamp(sameThread)
			switch {
			case r.segment() < since:
				if l != nil {
					c.distinct[0] += 1 << g
				}
			case r.same(own):
				level = stamp(r.level())
			default:
				level = c.apart(s, r, own)
			}
			p.read = own | level<<levelShift
			continue
		}
		if r.segment() >= since && a.kind != copyDone && (!r.same(own) || r.level() != sameThread) {
			c.against(a, i, at, r, own, false, l)
		}
		if l != nil && w.segment() < since {
			c.distinct[1] += 1 << g
		}
		p.written = own
	}
	if writes {
		if a.kind == copyStore {
			sh.setUnknown(at, n)
		} else {
			sh.setKnown(at, n)
		}
	}
}

// apart returns the level of a stamp of reads after adding own. r is the last read; s is the block of own.
func (c *checks) apart(s *blockShadow, r, own stamp) stamp {
	x, y := &c.segments[r.segment()-c.first], &c.segments[own.segment()-c.first]
	switch {
	case r.level() == severalBlocks:
		return severalBlocks
	case x.number != y.number:
		if s.follows(x.number, r.segment()) {
			return sameThread
		}
		return severalBlocks
	case x.barrier != y.barrier:
		return sameThread
	case x.warp != y.warp || r.level() == severalWarps:
		return severalWarps
	case r.segment() == own.segment():
		return severalLanes
	}
	return sameThread
}

// against checks an access against an earlier one, which is a write or the last read.
func (c *checks) against(a *access, i, at int, earlier, own stamp, write bool, l *allocation) {
	if earlier.segment() < c.first {
		return
	}
	if earlier&flyingStamp != 0 {
		if a.kind != copyDone && c.segments[earlier.segment()-c.first].number == uint32(a.w.block.number) {
			c.find(a, i, 1, "%s of shared memory at %d, to which an asynchronous copy goes that was not waited for,%s", verb(a.kind),
				at, c.where(a, earlier))
		}
		return
	}
	if earlier&own&atomicStamp != 0 {
		return
	}
	x, y := &c.segments[earlier.segment()-c.first], &c.segments[own.segment()-c.first]
	between := "between threads of two blocks"
	switch {
	case !write && earlier.level() == severalBlocks:
	case x.number != y.number:
		if a.w.block.shadow.(*blockShadow).follows(x.number, earlier.segment()) {
			return
		}
	case x.barrier != y.barrier:
		return
	case !write && earlier.level() == severalWarps || x.warp != y.warp:
		between = "with no barrier between"
	case earlier.segment() != own.segment():
		return
	case !write && earlier.level() == severalLanes || earlier.lane() != own.lane():
		between = "of the same warp, with no bar.warp.sync between"
	default:
		return
	}
	what := "a write"
	switch {
	case !write:
		what = "a read"
	case earlier&atomicStamp != 0:
		what = "an atomic"
	}
	c.find(a, i, 2, "race: %s of %s after %s%s, %s", verb(a.kind), c.place(a, at, l), what, c.where(a, earlier), between)
}

func verb(k kind) string {
	switch k {
	case load, copyLoad:
		return "read"
	case atomic:
		return "atomic"
	}
	return "write"
}

// place describes memory in messages.
func (c *checks) place(a *access, at int, l *allocation) string {
	if l == nil {
		return fmt.Sprintf("%v memory at %d", a.space, at)
	}
	return fmt.Sprintf("byte %d of allocation %d (%d bytes, address %#x)", at, l.number, l.bytes, l.base+uint64(at))
}

// where describes the instruction and thread of an earlier access.
func (c *checks) where(a *access, m stamp) string {
	x := &c.segments[m.segment()-c.first]
	l := a.w.block.launch
	line := 0
	if p := m.place(); p < len(l.kernel.code) {
		line = l.kernel.code[p].line
	}
	thread := uint32(int(x.warp)*32 + m.lane())
	d := l.block
	return fmt.Sprintf(" at line %d by thread %d,%d,%d of block %d", line, thread%d.X, thread/d.X%d.Y, thread/d.X/d.Y, x.number)
}

func (c *checks) unknown(a *access, i, at int, l *allocation) {
	c.find(a, i, 0, "%s of %s, which nobody wrote", verb(a.kind), c.place(a, at, l))
}

// find reports the first finding of a kind at an instruction of the launch.
func (c *checks) find(a *access, lane, kind int, format string, args ...any) {
	key := uint64(a.in.pc)<<3 | uint64(kind)
	if c.seen[key] {
		return
	}
	if c.seen == nil {
		c.seen = map[uint64]bool{}
	}
	c.seen[key] = true
	a.w.find(a.in, lane, format, args...)
}

func (c *checks) allocated(a *allocation) { a.shadow = newShadow(int(a.bytes)) }

// across checks a lane's access against work of other streams.
func (c *checks) across(a *access, i int, sh *shadow, at int, writes bool, l *allocation) {
	stray := func(m stamp) bool {
		return m.segment() >= c.doubtful && m.segment() < c.first && c.stray(m.segment())
	}
	found := c.meets(sh, at, a.size, writes)
	for j := at >> sh.grain; j <= (at+a.size-1)>>sh.grain; j++ {
		p := sh.cell(j)
		found = found || stray(p.written) || writes && stray(p.read)
	}
	if found {
		c.find(a, i, 3, "race of streams: %s of %s, which work of another stream uses; no event orders the two", verb(a.kind),
			c.place(a, at, l))
	}
}

func (c *checks) hostWrite(a *allocation, at, n uint64, from *allocation, src uint64) {
	s := a.shadow.(*shadow)
	c.moved(a, at, n, true)
	if from == nil {
		s.setAll(int(at), int(n))
		return
	}
	c.moved(from, src, n, false)
	s.copyFrom(int(at), int(n), from.shadow.(*shadow), int(src))
}

func (c *checks) forgotten(a *allocation, at, n uint64) {
	c.moved(a, at, n, true)
	a.shadow.(*shadow).clear(int(at), int(n))
}

func (c *checks) hostRead(a *allocation, at, n uint64) {
	c.moved(a, at, n, false)
	if i := a.shadow.(*shadow).unknown(int(at), int(n)); i >= 0 && !c.told {
		c.told = true
		c.tell("a copy to the host of %d bytes from byte %d of allocation %d (%d bytes): byte %d was never written", n, at, a.number,
			a.bytes, i)
	}
}

func (c *checks) moved(a *allocation, at, n uint64, write bool) {
	if c.transfer(a.shadow.(*shadow), int(at), int(n), write) && !c.told {
		c.told = true
		c.tell("race of streams: %s of %d bytes from byte %d of allocation %d (%d bytes) by a copy or fill, which work of another "+
			"stream uses; no event orders the two", map[bool]string{true: "write", false: "read"}[write], n, at, a.number, a.bytes)
	}
}
