package emu

import (
	"math/bits"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Control flow, barriers, and instructions that involve several lanes of a warp.

func decodeBranch(c *compiler, s *statement) (exec, error) {
	c.class, c.flow = classControl, flowBranch
	if err := s.only("uni"); err != nil {
		return nil, err
	}
	if err := s.operandsAre(1); err != nil {
		return nil, err
	}
	at, ok := c.e.labels[s.operands[0].name]
	if !ok {
		return nil, s.errorf("no label %q", s.operands[0].name)
	}
	c.target = at
	return nil, nil
}

func decodeExit(c *compiler, s *statement) (exec, error) {
	c.class, c.flow = classControl, flowExit
	if err := s.only("uni"); err != nil {
		return nil, err
	}
	if len(s.operands) != 0 {
		return nil, s.errorf("expected no operands")
	}
	return nil, nil
}

func decodeTrap(c *compiler, s *statement) (exec, error) {
	c.class = classControl
	here := c.here()
	return func(w *warp, mask uint32) {
		w.stop(here(w), bits.TrailingZeros32(mask), driver.IllegalInstruction, "trap")
	}, s.only()
}

// decodeBarrier decodes bar.sync, barrier.sync and bar.warp.sync.
func decodeBarrier(c *compiler, s *statement) (exec, error) {
	c.class, c.yields = classBarrier, true
	here := c.here()
	switch s.name() {
	case "bar.warp.sync":
		if err := s.operandsAre(1); err != nil {
			return nil, err
		}
		m, err := c.in32(s, s.operands[0], "b32")
		return func(w *warp, mask uint32) { w.together(here(w), m, mask) }, err
	case "bar.sync", "barrier.sync", "barrier.sync.aligned", "barrier.cta.sync", "barrier.cta.sync.aligned", "bar.cta.sync":
	default:
		return nil, s.unknown()
	}
	if err := s.operandsAre(1, 2); err != nil {
		return nil, err
	}
	id, err := s.constant(s.operands[0])
	if err != nil {
		return nil, err
	}
	if id > 15 {
		return nil, s.errorf("barrier %d: expected at most 15", id)
	}
	count := 0
	if len(s.operands) == 2 {
		if count, err = s.constant(s.operands[1]); err != nil {
			return nil, err
		}
		if count == 0 || count%32 != 0 {
			return nil, s.errorf("a barrier of %d threads: expected a multiple of 32", count)
		}
	}
	c.flow = flowBarrier
	return func(w *warp, mask uint32) {
		if mask != w.exist {
			lane := bits.TrailingZeros32(w.exist &^ mask)
			w.find(here(w), lane, "barrier in divergent code: the thread has ended or is elsewhere; lanes %08x of %08x are here",
				mask, w.exist)
		}
		w.waiting = id
		b := w.block
		b.arrived[id]++
		if b.expects[id] != 0 && b.expects[id] != count/32 {
			w.find(here(w), bits.TrailingZeros32(mask), "barrier %d waits for %d and for %d threads", id, 32*b.expects[id], count)
		}
		b.expects[id] = count / 32
		b.release(id)
	}, nil
}

// release lets the warps at a barrier continue if all have arrived.
func (b *block) release(id int) {
	want := b.living
	if b.expects[id] != 0 {
		want = b.expects[id]
	}
	if b.arrived[id] == 0 || b.arrived[id] < want {
		return
	}
	for _, o := range b.launch.observers {
		o.barrier(b, id)
	}
	b.arrived[id], b.expects[id] = 0, 0
	for _, w := range b.warps {
		if w.waiting == id {
			w.waiting = -1
			if !w.done {
				b.launch.ready(w)
			}
		}
	}
}

func decodeFence(c *compiler, s *statement) (exec, error) {
	c.class, c.yields = classBarrier, true
	if err := s.only("gl", "cta", "sys", "gpu", "sc", "acq_rel"); err != nil {
		return nil, err
	}
	if err := s.operandsAre(0); err != nil {
		return nil, err
	}
	here := c.here()
	return func(w *warp, mask uint32) {
		for _, o := range w.block.launch.observers {
			o.fence(w, here(w), mask)
		}
	}, nil
}

// together checks that register m names exactly the lanes of mask, and notifies the observers that they have met.
func (w *warp) together(in *instr, m int32, mask uint32) uint32 {
	member := w.r32[m][bits.TrailingZeros32(mask)&31]
	w.member(in, member, mask)
	for _, o := range w.block.launch.observers {
		o.warpSync(w, in, mask)
	}
	return member
}

func decodeShuffle(c *compiler, s *statement) (exec, error) {
	c.class, c.yields = classShuffle, true
	if len(s.op) != 4 || s.op[1] != "sync" || s.op[3] != "b32" {
		return nil, s.unknown()
	}
	mode := s.op[2]
	if mode != "up" && mode != "down" && mode != "bfly" && mode != "idx" {
		return nil, s.unknown()
	}
	if err := s.operandsAre(5); err != nil {
		return nil, err
	}
	inside := int32(-1)
	first := s.operands[0]
	var err error
	if first.kind == pairOperand {
		if inside, err = c.pred(s, first.list[1]); err != nil {
			return nil, err
		}
		first = first.list[0]
	}
	d, err := c.out32(s, first)
	if err != nil {
		return nil, err
	}
	var in [4]int32
	for i := range in {
		if in[i], err = c.in32(s, s.operands[i+1], "b32"); err != nil {
			return nil, err
		}
	}
	here := c.here()
	return func(w *warp, mask uint32) {
		w.together(here(w), in[3], mask)
		from := w.r32[in[0]]
		by, limit := &w.r32[in[1]], &w.r32[in[2]]
		p := uint32(0)
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			b, c := int(by[i]&31), int(limit[i]&31)
			seg := int(limit[i] >> 8 & 31)
			top, bottom := i&seg|c&^seg, i&seg
			j, ok := 0, false
			switch mode {
			case "up":
				j = i - b
				ok = j >= top
			case "down":
				j = i + b
				ok = j <= top
			case "bfly":
				j = i ^ b
				ok = j <= top
			default:
				j = bottom | b&^seg
				ok = j <= top
			}
			if !ok {
				j = i
			} else {
				p |= 1 << i
			}
			if mask>>j&1 == 0 {
				w.find(here(w), i, "shuffle from lane %d, which does not take part", j)
				w.r32[d][i] = 0xdeadbeef
				continue
			}
			w.r32[d][i] = from[j]
		}
		if inside >= 0 {
			setMask(w, inside, mask, p)
		}
	}, nil
}

func decodeVote(c *compiler, s *statement) (exec, error) {
	c.class, c.yields = classShuffle, true
	if len(s.op) != 4 || s.op[1] != "sync" {
		return nil, s.unknown()
	}
	if err := s.operandsAre(3); err != nil {
		return nil, err
	}
	p, err := c.predIn(s, s.operands[1])
	if err != nil {
		return nil, err
	}
	m, err := c.in32(s, s.operands[2], "b32")
	if err != nil {
		return nil, err
	}
	here := c.here()
	if s.op[2] == "ballot" && s.op[3] == "b32" {
		d, err := c.out32(s, s.operands[0])
		return func(w *warp, mask uint32) {
			w.together(here(w), m, mask)
			x := p(w) & mask
			lanes(mask, func(i int) { w.r32[d][i] = x })
		}, err
	}
	mode := s.op[2]
	if s.op[3] != "pred" || mode != "all" && mode != "any" && mode != "uni" {
		return nil, s.unknown()
	}
	d, err := c.pred(s, s.operands[0])
	return func(w *warp, mask uint32) {
		w.together(here(w), m, mask)
		x, r := p(w)&mask, uint32(0)
		if mode == "all" && x == mask || mode == "any" && x != 0 || mode == "uni" && (x == 0 || x == mask) {
			r = full
		}
		setMask(w, d, mask, r)
	}, err
}

func decodeRedux(c *compiler, s *statement) (exec, error) {
	c.class, c.yields = classShuffle, true
	if len(s.op) != 4 || s.op[1] != "sync" {
		return nil, s.unknown()
	}
	n, float, signed := width(s.typ())
	var f func(x, y uint32) uint32
	switch s.op[2] {
	case "add":
		f = func(x, y uint32) uint32 { return x + y }
	case "and":
		f = func(x, y uint32) uint32 { return x & y }
	case "or":
		f = func(x, y uint32) uint32 { return x | y }
	case "xor":
		f = func(x, y uint32) uint32 { return x ^ y }
	case "min":
		f = func(x, y uint32) uint32 { return min(x, y) }
		if signed {
			f = signed32(func(x, y int32) int32 { return min(x, y) })
		}
	case "max":
		f = func(x, y uint32) uint32 { return max(x, y) }
		if signed {
			f = signed32(func(x, y int32) int32 { return max(x, y) })
		}
	}
	if f == nil || n != 32 || float {
		return nil, s.unknown()
	}
	d, in, err := c.regs32(s, s.typ(), 2)
	here := c.here()
	return func(w *warp, mask uint32) {
		w.together(here(w), in[1], mask)
		r, started := uint32(0), false
		lanes(mask, func(i int) {
			if x := w.r32[in[0]][i]; started {
				r = f(r, x)
			} else {
				r, started = x, true
			}
		})
		lanes(mask, func(i int) { w.r32[d][i] = r })
	}, err
}

func decodeActiveMask(c *compiler, s *statement) (exec, error) {
	c.class = classShuffle
	if s.name() != "activemask.b32" {
		return nil, s.unknown()
	}
	if err := s.operandsAre(1); err != nil {
		return nil, err
	}
	d, err := c.out32(s, s.operands[0])
	return func(w *warp, mask uint32) { lanes(mask, func(i int) { w.r32[d][i] = mask }) }, err
}
