package emu

import (
	"math"
	"slices"
)

// The order of work of several streams: a piece of work is behind another one of a different stream only if an event, or the
// host, waited in between. Memory that two pieces use, one of them to write, must be ordered so, in whichever order the
// emulator did them.

// clock says how many pieces of work of each stream are behind a point. It is not changed once it is shared.
type clock []uint32

func (c clock) at(stream int) uint32 {
	if stream < len(c) {
		return c[stream]
	}
	return 0
}

// join returns the clock of a point behind both.
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
	known    clock   // of the work at hand
	recent   []piece // of work, the last ones
	doubtful uint64  // the first segment of those pieces that are not before the work at hand; the greatest number: there are none
	told     bool    // a finding about the work at hand
}

// piece is work of a stream.
type piece struct {
	first  uint64 // segment
	stream int
	n      uint32 // of the stream, from 1
}

// A piece of work is compared with this many before it.
const recentPieces = 256

const noSegment = math.MaxUint64

// begin begins the n-th piece of work of a stream, whose segments begin with first.
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

// stray reports whether a segment of an earlier piece of work, not less than doubtful, is not before the work at hand.
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

// An allocation remembers this many transfers.
const recentTransfers = 16

// transfer notes a copy or fill, and reports whether work that uses the same memory is not ordered with it.
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

// meets reports whether a transfer that uses the same memory is not before the work at hand.
func (c *checks) meets(s *shadow, at, n int, write bool) bool {
	for _, h := range s.recent {
		if h.segment >= c.doubtful && (write || h.write) && at < h.at+h.n && h.at < at+n && c.stray(h.segment) {
			return true
		}
	}
	return false
}

// beginWork begins a piece of work of a stream.
func (d *Driver) beginWork(s *stream) {
	s.clock = s.clock.tick(s.number)
	if d.watch != nil {
		d.watch.checks.work(s.number, s.clock)
	}
}

// work begins a piece of work, which takes one segment as a whole; those of a launch's warps follow.
func (c *checks) work(stream int, known clock) {
	c.next = max(c.next, 1) + 1
	c.orders.begin(stream, known, c.next-1)
}
