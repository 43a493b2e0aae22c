package emu

import (
	"math"
	"slices"
)

// The order of work in several streams. A piece of work comes after one in a different stream only if an event or
// the host waited in between. Two pieces that use the same memory, at least one writing it, must be ordered in this
// way, whichever order the emulator executed them in.

// clock is, for each stream, the number of pieces of its work that come before a point. It does not change once it
// is shared.
type clock []uint32

func (c clock) at(stream int) uint32 {
	if stream < len(c) {
		return c[stream]
	}
	return 0
}

// join returns the clock of a point after both.
func (c clock) join(b clock) clock {
	behind := len(b) <= len(c)
	for i := 0; behind && i < len(b); i++ {
		behind = b[i] <= c[i]
	}
	if behind {
		return c
	}
	out := make(clock, max(len(c), len(b)))
	for i := range out {
		out[i] = max(c.at(i), b.at(i))
	}
	return out
}

// tick returns the clock after one more piece of work of a stream.
func (c clock) tick(stream int) clock {
	out := make(clock, max(len(c), stream+1))
	copy(out, c)
	out[stream]++
	return out
}

// orders finds work that should be ordered and is not.
type orders struct {
	known    clock   // of the current work
	recent   []piece // the last pieces of work
	doubtful uint64  // the first segment of the pieces not ordered before the current work; the maximum if there are none
	told     bool    // whether the current work has a finding
}

// piece is a piece of work of a stream.
type piece struct {
	first  uint64 // its first segment
	stream int
	n      uint32 // its number in the stream, from 1
}

// recentPieces is the number of earlier pieces that a piece of work is compared with.
const recentPieces = 256

const noSegment = math.MaxUint64

// begin starts the n-th piece of work of a stream. Its segments start at first.
func (o *orders) begin(stream int, known clock, first uint64) {
	o.known, o.doubtful, o.told = known, noSegment, false
	if len(o.recent) >= 2*recentPieces {
		o.recent = append(o.recent[:0], o.recent[len(o.recent)-recentPieces:]...)
	}
	for _, p := range slices.Backward(o.recent[max(0, len(o.recent)-recentPieces):]) {
		if p.n > known.at(p.stream) {
			o.doubtful = p.first
		}
	}
	o.recent = append(o.recent, piece{first, stream, known.at(stream)})
}

// stray reports whether a segment of an earlier piece of work, not less than doubtful, is not ordered before the
// current work.
func (o *orders) stray(segment uint64) bool {
	for _, p := range slices.Backward(o.recent) {
		if p.first <= segment {
			return p.n > o.known.at(p.stream)
		}
	}
	return false
}

// transfer is a copy or fill of n bytes from at.
type transfer struct {
	segment uint64
	at, n   int
	write   bool
}

// recentTransfers is the number of transfers that an allocation remembers.
const recentTransfers = 16

// transfer records a copy or fill, and reports whether unordered work uses the same memory.
func (c *checks) transfer(s *shadow, at, n int, write bool) bool {
	stray := false
	if c.doubtful != noSegment && n > 0 {
		for i := at >> s.grain; i <= (at+n-1)>>s.grain; i++ {
			p := s.pages[i>>pageBits]
			if p == nil {
				i |= 1<<pageBits - 1
				continue
			}
			q := &p[i&(1<<pageBits-1)]
			for _, m := range [2]stamp{q.written, q.read} {
				if m.segment() >= c.doubtful && m.segment() < c.next && (write || m == q.written) && c.stray(m.segment()) {
					stray = true
				}
			}
		}
		stray = stray || c.meets(s, at, n, write)
	}
	if len(s.recent) == recentTransfers {
		s.recent = append(s.recent[:0], s.recent[1:]...)
	}
	s.recent = append(s.recent, transfer{c.next - 1, at, n, write})
	return stray
}

// meets reports whether a transfer that uses the same memory is not ordered before the current work.
func (c *checks) meets(s *shadow, at, n int, write bool) bool {
	for _, h := range s.recent {
		if h.segment >= c.doubtful && (write || h.write) && at < h.at+h.n && h.at < at+n && c.stray(h.segment) {
			return true
		}
	}
	return false
}

// beginWork starts a piece of work of a stream.
func (d *Driver) beginWork(s *stream) {
	s.clock = s.clock.tick(s.number)
	if d.watch != nil {
		d.watch.checks.work(s.number, s.clock)
	}
}

// work starts a piece of work, which is one segment itself. Segments of a launch's warps follow.
func (c *checks) work(stream int, known clock) {
	c.next = max(c.next, 1) + 1
	c.orders.begin(stream, known, c.next-1)
}
